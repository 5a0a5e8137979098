//! stub
pub struct Times;
impl Times {
    pub fn date(&self, _t: &[u8]) -> Option<i32> {
        None
    }
    pub fn timestamp(&self, _t: &[u8]) -> Option<i64> {
        None
    }
    pub fn timestamp_ntz(&self, _t: &[u8]) -> Option<i64> {
        None
    }
}
pub struct Zone; impl Zone { pub fn utc()->Zone{Zone} } impl Times { pub fn iso(_:Zone)->Times{Times} }
