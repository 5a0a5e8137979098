//! stub
#[derive(Clone)]
pub struct Times;
impl Times { pub fn date(&self,_t:&[u8])->Option<i32>{None} pub fn timestamp(&self,_t:&[u8])->Option<i64>{None} pub fn timestamp_ntz(&self,_t:&[u8])->Option<i64>{None} 
pub fn with_date_format(self,_:&str)->Result<Self,String>{Ok(self)} pub fn with_timestamp_format(self,_:&str)->Result<Self,String>{Ok(self)} pub fn with_timestamp_ntz_format(self,_:&str)->Result<Self,String>{Ok(self)} }
#[derive(Clone)]
pub struct Zone; impl Zone { pub fn utc()->Zone{Zone} pub fn new(_:&str)->Option<Zone>{Some(Zone)} } impl Times { pub fn iso(_:Zone)->Times{Times} }
pub struct Pattern; impl Pattern { pub fn new(_:&str)->Result<Pattern,String>{Ok(Pattern)} }
