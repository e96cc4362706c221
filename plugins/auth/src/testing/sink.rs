//! A real SMTP server (Python's `aiosmtpd`) that stores received mail. The tests need it on the
//! machine.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Prints its port and then one JSON object per message. It stops when its standard input closes.
const SERVER: &str = r#"
import asyncio, email, email.policy, json, sys
from aiosmtpd.smtp import SMTP

class Keep:
    async def handle_DATA(self, server, session, envelope):
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        body = lambda kind: message.get_body(preferencelist=(kind,)).get_content()
        print(json.dumps({
            "from": envelope.mail_from, "to": envelope.rcpt_tos, "subject": message["Subject"], "bcc": message["Bcc"],
            "autoSubmitted": message["Auto-Submitted"], "text": body("plain"), "html": body("html"),
        }), flush=True)
        return "250 OK"

async def main():
    loop = asyncio.get_running_loop()
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    server = await loop.create_server(lambda: SMTP(Keep(), enable_SMTPUTF8=True), "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"#;

/// An SMTP server of a test.
pub(crate) struct Sink {
    process: Child,
    port: u16,
    received: Arc<Mutex<Vec<serde_json::Value>>>,
}

impl Sink {
    pub(crate) fn start() -> Self {
        Self::at(0)
    }

    /// Starts a server at this port; 0 for any free port.
    pub(crate) fn at(port: u16) -> Self {
        let mut command = Command::new("python3");
        command
            .args(["-c", SERVER, &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command
            .spawn()
            .expect("python3 is needed for the mail sink");
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines
            .next()
            .and_then(Result::ok)
            .and_then(|line| line.parse().ok());
        let port = port.expect("the mail sink did not start: `pip install aiosmtpd`");
        let received = Arc::new(Mutex::new(Vec::new()));
        let storage = received.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                storage
                    .lock()
                    .unwrap()
                    .push(serde_json::from_str(&line).unwrap());
            }
        });
        Self {
            process,
            port,
            received,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("smtp://127.0.0.1:{}", self.port)
    }

    /// The messages so far.
    pub(crate) fn messages(&self) -> Vec<serde_json::Value> {
        self.received.lock().unwrap().clone()
    }

    /// Waits for this number of messages and returns all.
    pub(crate) async fn received(&self, count: usize) -> Vec<serde_json::Value> {
        for _ in 0..2000 {
            let messages = self.messages();
            if messages.len() >= count {
                return messages;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!(
            "{count} messages were expected, {} arrived",
            self.messages().len()
        );
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // The server also stops when its standard input closes, but killing it is faster.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
