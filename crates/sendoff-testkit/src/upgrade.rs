//! Scripts that make tables, and tables of older versions that are made with them.

/// The first part of a script of all migrations: up to the line in which it notes this version in the table
/// `versions`. Run alone, it makes the tables that version had.
pub fn up_to(script: &str, versions: &str, version: usize) -> String {
    let numbers = [format!("values ({version})"), format!("values ({version}, ")];
    let is_note = |line: &str| {
        line.starts_with("insert ")
            && line.contains(versions)
            && numbers.iter().any(|number| line.contains(number))
    };
    let mut part = String::new();
    for line in script.lines() {
        part.push_str(line);
        part.push('\n');
        if is_note(line) {
            return part;
        }
    }
    panic!("no version {version} of {versions} in {script}");
}
