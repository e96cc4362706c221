/// Events of one note.
#[channel(of = Note, name = "live", presence, history(size = 500, ttl = "1h"), roles = ["reader"])]
pub enum NoteLive {
    /// The note itself.
    #[on(Note::updated, Note::deleted, Note::CLOSE)]
    Note(Note),
    #[on(Remark::created, by = note_id, when(hidden == false), event = "remark.made", alias = ["remark:made"])]
    Remark(RemarkCard),
    #[relay(rate = "2/s", echo)]
    Typing { remark_id: String },
    #[incoming(Remark::PIN, by = note_id)]
    Pin { reason: String },
    #[incoming(crate::votes::vote)]
    Vote(Vote),
    #[publish(ephemeral)]
    Announcement {
        #[field(length = 1..=200)]
        text: String,
        urgent: bool,
    },
    #[publish]
    Closed,
}
