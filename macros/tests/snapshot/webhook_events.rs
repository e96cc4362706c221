webhook_events! {
    Note: [created, updated when(title != "draft"), PUBLISH],
    Remark: [deleted],
}
