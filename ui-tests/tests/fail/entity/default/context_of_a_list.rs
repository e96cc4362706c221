linchpin::context! {
    pub locale: Option<String>;
    pub groups: Vec<String>;
    pub region: String;
}

fn main() {}
