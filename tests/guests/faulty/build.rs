//! Copies the default policy of the slot that this package is named after, with all of its faults in it, each asleep
//! until the setting `fault` names it.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "faults.rs"]
#[allow(dead_code, unreachable_pub, reason = "a library has the same file, and says the rest of it")]
mod faults;

fn main() -> Result<(), Box<dyn Error>> {
    let slot = std::env::var("CARGO_PKG_NAME")?;
    let slot = slot.strip_prefix("windlass-faulty-").ok_or("this package is no faulty policy")?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../guest").join(slot).join("src");
    println!("cargo::rerun-if-changed=../build.rs");
    println!("cargo::rerun-if-changed=../faults.rs");
    println!("cargo::rerun-if-changed={}", source.display());
    for entry in fs::read_dir(&source)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".rs") || name == "tests.rs" {
            continue;
        }
        // Its tests are of the policy without faults.
        let mut text = fs::read_to_string(entry.path())?.replace("#[cfg(test)]\nmod tests;\n", "");
        for fault in faults::FAULTS.iter().filter(|fault| fault.slot == slot && fault.file == name) {
            if text.matches(fault.from).count() != 1 {
                return Err(format!("the fault {} does not fit {name} of {slot} any more", fault.name).into());
            }
            text = text.replace(fault.from, &fault.to.replace("FAULT", &format!("crate::fault(\"{}\")", fault.name)));
        }
        if name == "lib.rs" {
            text = with_setting(&text)?;
        }
        fs::write(out.join(name), text)?;
    }
    Ok(())
}

/// The setting by which a fault is chosen.
fn with_setting(text: &str) -> Result<String, String> {
    // An included file can have no documentation of its own.
    let mut text: String =
        text.lines().filter(|line| !line.starts_with("//!")).map(|line| format!("{line}\n")).collect();
    let open = text.find("    pub struct Default").and_then(|begin| Some(begin + text[begin..].find('{')? + 1));
    let open = open.ok_or("the policy has no settings")?;
    text.insert_str(open, "\n/// The fault that it has.\npub fault: String = String::new(),\n");
    let choose = "check(self) { crate::choose_fault(&self.fault);";
    match text.contains("check(self) {") {
        true => Ok(text.replacen("check(self) {", choose, 1)),
        false => {
            let end = text[open..].find('}').ok_or("the settings do not end")? + open + 1;
            text.insert_str(end, &format!("\n{choose} Ok(()) }}\n"));
            Ok(text)
        }
    }
}
