#[transform]
fn owner(record: &OldRecord<'_>) -> Result<Option<String>, TransformError> {
    record.get("email")
}
