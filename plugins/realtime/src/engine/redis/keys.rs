//! Names of keys and channels.

use crate::engine::{NodeId, Stream};

/// The names of keys and channels. The keys and the channel of a stream have the stream's name as
/// their hash tag, so that they are all in one slot.
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        // A brace in the prefix would begin the hash tag.
        Self {
            prefix: escape(prefix),
        }
    }

    fn key_of(&self, stream: &str, part: &str) -> String {
        format!("{}{{{}}}{part}", self.prefix, escape(stream))
    }

    /// Returns the keys of the position, the frames and the event ids of a stream.
    pub(super) fn log(&self, stream: &Stream) -> [String; 3] {
        [":p", ":s", ":i"].map(|part| self.key_of(stream.name(), part))
    }

    /// Returns the keys of the leases, the ends of leases and the arrivals of a stream.
    pub(super) fn presence(&self, stream: &Stream) -> [String; 3] {
        [":l", ":z", ":a"].map(|part| self.key_of(stream.name(), part))
    }

    pub(super) fn channel(&self, stream: &str) -> String {
        self.key_of(stream, "")
    }

    /// The pattern of the keys of all positions, for `SCAN`.
    pub(super) fn positions(&self) -> String {
        let mut pattern = String::new();
        for letter in self.prefix.chars() {
            if "\\*?[]".contains(letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        pattern + "{*}:p"
    }

    /// Returns the log and the channel of the stream whose position has this key. Returns `None`
    /// for a key that the engine did not create.
    pub(super) fn log_of_position(&self, key: &str) -> Option<([String; 3], String)> {
        let tagged = key.strip_suffix(":p")?;
        let name = tagged.strip_prefix(&self.prefix)?;
        let name = name.strip_prefix('{')?.strip_suffix('}')?;
        let own = !name.is_empty() && !name.contains(['{', '}']);
        own.then(|| {
            let log = [":p", ":s", ":i"].map(|part| format!("{tagged}{part}"));
            (log, tagged.to_owned())
        })
    }

    pub(super) fn node(&self, node: &NodeId) -> String {
        format!("{}node:{node}", self.prefix)
    }

    pub(super) fn all_nodes(&self) -> String {
        format!("{}nodes", self.prefix)
    }

    /// The stream of a channel.
    pub(super) fn stream(&self, channel: &str) -> Option<String> {
        let name = channel.strip_prefix(&self.prefix)?;
        let name = name.strip_prefix('{')?.strip_suffix('}')?;
        Some(
            name.replace("%7B", "{")
                .replace("%7D", "}")
                .replace("%25", "%"),
        )
    }
}

/// Escapes braces. A brace in a name would end the hash tag early, so the slot would not depend on
/// the whole name.
fn escape(text: &str) -> String {
    text.replace('%', "%25")
        .replace('{', "%7B")
        .replace('}', "%7D")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::History;

    #[test]
    fn the_keys_of_a_stream_have_one_hash_tag_and_its_channel_names_it() {
        let keys = Keys::new("my{app}:");
        for name in ["tasks:1:live", "}{", "a%7Bb", "100%"] {
            let stream = Stream::new(name, History::default());
            let tag = |key: &str| {
                let (_, tag) = key.split_once('{').unwrap();
                tag.split_once('}').unwrap().0.to_owned()
            };
            let all = [keys.log(&stream), keys.presence(&stream)].concat();
            assert!(
                all.iter()
                    .all(|key| tag(key) == tag(&all[0]) && !tag(key).is_empty())
            );
            let channel = keys.channel(name);
            assert_eq!(tag(&channel), tag(&all[0]));
            assert_eq!(keys.stream(&channel).as_deref(), Some(name));
            let [position, ..] = keys.log(&stream);
            let found = keys.log_of_position(&position);
            assert_eq!(found, Some((keys.log(&stream), channel)));
        }
        assert_eq!(keys.positions(), "my%7Bapp%7D:{*}:p");
        assert_eq!(Keys::new("a*[b]\\").positions(), "a\\*\\[b\\]\\\\{*}:p");
        for foreign in [
            "my%7Bapp%7D:x:p",
            "my%7Bapp%7D:{}:p",
            "my%7Bapp%7D:{a}{b}:p",
            "{a}:p",
        ] {
            assert_eq!(keys.log_of_position(foreign), None, "{foreign}");
        }
        assert_eq!(keys.stream(&keys.all_nodes()), None);
        assert_eq!(keys.stream(&keys.node(&NodeId::random())), None);
    }
}
