//! Gives libxmml its soname: programs linked against one release run with every later one of the same interface.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libxmml.so.0");
}
