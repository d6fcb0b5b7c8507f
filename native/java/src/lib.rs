//! The native library of the Java API: `org.xmml.Native` on xmml-core. It converts types and errors and adds nothing.
//!
//! Objects of Rust are given to Java as addresses (`long`). The classes of the API own them: nothing else calls these functions, and each
//! object is freed once, by the class that holds it.

// The functions that Java calls have its arguments; how they are to be called is said by org.xmml.Native.
#![allow(clippy::too_many_arguments)]

mod alone;
mod callback;
mod data;
mod exchange;
mod failure;
mod handle;
mod instance;
mod object;
mod pool;

use jni::sys::{jint, JNI_VERSION_1_8};
use jni::JavaVM;
use std::ffi::c_void;

/// Called by the virtual machine when it loads the library.
#[no_mangle]
pub extern "system" fn JNI_OnLoad(_machine: JavaVM, _reserved: *mut c_void) -> jint {
    JNI_VERSION_1_8
}
