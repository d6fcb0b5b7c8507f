//! Where programs are found: the folders of a search path, as in the variable `PATH`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where programs are looked for if nobody says.
pub const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Returns the path of a program: that of its name in the first folder of a search path that has it.
pub fn found_on(program: &OsStr, path: &OsStr) -> Option<OsString> {
    if Path::new(program).components().count() != 1 {
        return None;
    }
    let is_program = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path).map(|folder| folder.join(program)).find(is_program).map(PathBuf::into_os_string)
}

/// Returns a program with the links in its folder resolved: mpirun takes the folder above that of `/bin/mpirun` for where
/// it is installed.
pub fn without_links(program: &OsStr) -> OsString {
    let path = Path::new(program);
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let resolved = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name).into_os_string());
    resolved.unwrap_or_else(|| program.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_program_is_found_in_the_first_folder_that_has_it_and_without_the_links_to_that() {
        let folder = std::env::temp_dir().join(format!("xmml-search-{}", std::process::id()));
        fs::create_dir_all(folder.join("text")).unwrap();
        fs::create_dir_all(folder.join("installed")).unwrap();
        for (file, mode) in [("text/solver", 0o644), ("installed/solver", 0o755)] {
            fs::write(folder.join(file), "").unwrap();
            fs::set_permissions(folder.join(file), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("installed", folder.join("bin")).unwrap();
        let path = std::env::join_paths(["text", "bin", "installed"].map(|name| folder.join(name))).unwrap();
        let found = found_on(OsStr::new("solver"), &path).unwrap();
        assert_eq!(found, folder.join("bin/solver"));
        assert_eq!(without_links(&found), folder.canonicalize().unwrap().join("installed/solver"));
        assert_eq!(found_on(OsStr::new("./solver"), &path), None, "it is a path already");
        assert_eq!(found_on(OsStr::new("mapper"), &path), None);
        fs::remove_dir_all(folder).unwrap();
    }
}
