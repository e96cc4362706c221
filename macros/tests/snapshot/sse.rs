sse! {
    /// Events of notes and remarks.
    pub const NOTES = "/__sse/notes";
    Note: [created as "notes:made" + "note.made", updated, CLOSE],
    Remark: [deleted],
    auth = "userAuth",
    filter = crate::mine,
    heartbeat = false,
    max_connections = 4,
}
