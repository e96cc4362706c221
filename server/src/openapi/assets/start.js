// A file, not an inline script: the page's policy allows none.
window.onload = () => {
  SwaggerUIBundle({
    url: "openapi.json",
    dom_id: "#ui",
    deepLinking: true,
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    filter: true,
    requestSnippetsEnabled: true,
    tryItOutEnabled: true,
    validatorUrl: null,
    onComplete: () => { document.title = document.querySelector(".info .title")?.firstChild?.textContent ?? "API"; },
  });
};
