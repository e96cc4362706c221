#[channel(of = Note, name = "Live", history(size = 20000))]
pub enum NoteLive {
    #[on(Remark::created)]
    Remark(Remark),
    #[publish]
    Announcement { text: String },
}
