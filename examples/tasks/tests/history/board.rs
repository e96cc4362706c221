//! A user with tasks on a server of some version, and the tasks that every version must return.

use std::collections::BTreeMap;

use example_support::client::{Client, Reply};
use example_support::session::Server;
use serde_json::{Value as Json, json};

/// The values of tasks that every version must return, by id: the title and the tag.
pub type Tasks = BTreeMap<String, (String, String)>;

/// A user of a server of some version.
pub struct Board {
    version: usize,
    client: Client,
}

impl Board {
    pub fn new(version: usize, client: Client) -> Self {
        Self { version, client }
    }

    /// The same user at the server of another version.
    pub fn at(&self, version: usize, server: &Server) -> Self {
        Self::new(version, self.client.at(server))
    }

    /// The name of the field with the title.
    fn title_field(&self) -> &'static str {
        if self.version == 1 { "name" } else { "title" }
    }

    /// The name of the field with the tag, and its value.
    fn tag_field(&self, tag: &str) -> (&'static str, Json) {
        match self.version {
            1 | 2 => ("tag", json!(tag)),
            _ => ("tags", json!([tag])),
        }
    }

    /// Creates a task.
    #[track_caller]
    pub fn create(&self, tasks: &mut Tasks, title: &str) -> String {
        let (name, tags) = self.tag_field("home");
        let reply = self.client.send(
            "POST",
            "/tasks",
            json!({ self.title_field(): title, name: tags }),
        );
        assert_eq!(reply.status, 201, "version {}: {reply:?}", self.version);
        let id = reply.body["id"].as_str().expect("an id").to_owned();
        tasks.insert(id.clone(), (title.to_owned(), "home".to_owned()));
        id
    }

    /// Changes the title of a task.
    #[track_caller]
    pub fn rename(&self, tasks: &mut Tasks, id: &str, title: &str) {
        let reply = self.patch(id, json!({ self.title_field(): title }));
        assert_eq!(reply.status, 200, "version {}: {reply:?}", self.version);
        tasks.get_mut(id).expect("a task").0 = title.to_owned();
    }

    /// Sends another title of a task. Returns the response, which may be a refusal.
    pub fn retitle(&self, id: &str, title: &str) -> Reply {
        self.patch(id, json!({ self.title_field(): title }))
    }

    /// Changes the tag of a task.
    #[track_caller]
    pub fn retag(&self, tasks: &mut Tasks, id: &str, tag: &str) {
        let (name, tags) = self.tag_field(tag);
        let reply = self.patch(id, json!({ name: tags }));
        assert_eq!(reply.status, 200, "version {}: {reply:?}", self.version);
        tasks.get_mut(id).expect("a task").1 = tag.to_owned();
    }

    /// Sends a change of a task with its present version number.
    pub fn patch(&self, id: &str, change: Json) -> Reply {
        let path = format!("/tasks/{id}");
        let version = self.get(id)["version"].as_u64().expect("a version");
        let version = u32::try_from(version).expect("a small number");
        self.client
            .call_with_version("PATCH", &path, version, change)
    }

    #[track_caller]
    pub fn get(&self, id: &str) -> Json {
        let reply = self.client.ask("GET", &format!("/tasks/{id}"), "");
        assert_eq!(reply.status, 200, "version {}: {reply:?}", self.version);
        reply.body
    }

    /// Checks that the list has exactly these tasks.
    #[track_caller]
    pub fn assert_tasks(&self, tasks: &Tasks) {
        let reply = self.client.ask("GET", "/tasks?limit=100", "");
        assert_eq!(reply.status, 200, "version {}: {reply:?}", self.version);
        let items = reply.body["items"].as_array().expect("a list").clone();
        let shown: Tasks = items
            .iter()
            .map(|item| {
                let text = |name: &str| item[name].as_str().expect("a text").to_owned();
                let tag = match self.version {
                    1 | 2 => text("tag"),
                    _ => item["tags"][0].as_str().expect("a tag").to_owned(),
                };
                (text("id"), (text(self.title_field()), tag))
            })
            .collect();
        assert_eq!(&shown, tasks, "version {}", self.version);
    }
}
