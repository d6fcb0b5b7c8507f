//! Who a program is at a path, and the certificates that it shows there.

use std::ffi::{c_int, CString};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use xmml_path::{Credentials, Identity, Tls};
use xmml_wire::error::Error;
use xmml_wire::private_file;

use crate::argument::{elements, object, optional_text, text, Elements, Room, Text};
use crate::status::{guard, Failure, Result};

/// See the header.
#[repr(C)]
#[allow(non_camel_case_types, missing_docs)]
pub struct xmml_path_identity<'a> {
    run: Text<'a>,
    name: Text<'a>,
    secret_file: Text<'a>,
    credentials_file: Text<'a>,
    trusted: Elements<'a, Text<'a>>,
    trusted_count: usize,
}

fn file_error(action: &str, file: &str, error: &std::io::Error) -> Failure {
    Error::io(&format!("{action} {file}"), error).into()
}

/// What a program says of itself.
pub(super) fn identity(me: Option<&xmml_path_identity>) -> Result<Identity> {
    let me = object(me, "me")?;
    let (run, name) = (text(me.run, "me.run")?, text(me.name, "me.name")?);
    let secret = text(me.secret_file, "me.secret_file")?;
    let identity = Identity::from_secret_file(std::path::Path::new(secret), run, name)?;
    let Some(file) = optional_text(me.credentials_file, "me.credentials_file")? else {
        if me.trusted_count > 0 {
            let problem = "certificates are trusted on encrypted paths only: give me.credentials_file, too".to_owned();
            return Err(Error::Usage { problem }.into());
        }
        return Ok(identity);
    };
    let pem = private_file::read(std::path::Path::new(file), private_file::KEY_MAX, "this key");
    let pem = pem.map_err(|cause| Error::Io { action: format!("read {file}"), cause })?;
    let trusted = elements(me.trusted, me.trusted_count, "me.trusted")?;
    let trusted = trusted.iter().map(|digits| Ok(text(*digits, "me.trusted")?.parse()?));
    let trusted = trusted.collect::<Result<Vec<_>>>()?;
    Ok(identity.encrypted(Tls::new(&Credentials::from_pem(&pem)?, &trusted)?))
}

/// See the header.
#[no_mangle]
pub extern "C" fn xmml_path_make_credentials(file: Text, name: Text, seconds: f64, fingerprint: Room<u8>) -> c_int {
    guard(|| {
        let (file, name) = (text(file, "file")?, text(name, "name")?);
        let good_for = Duration::try_from_secs_f64(seconds)
            .map_err(|_| Failure::usage(format!("{seconds} s is no time for which a certificate can be good")))?;
        if fingerprint.is_null() {
            return Err(Failure::usage("fingerprint is a null pointer"));
        }
        let made = Credentials::make(name, good_for)?;
        let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
        let written = opened.and_then(|mut opened| opened.write_all(made.to_pem().as_bytes()));
        written.map_err(|error| file_error("write", file, &error))?;
        let digits = CString::new(made.fingerprint().to_string()).unwrap_or_default();
        fingerprint.fill(digits.as_bytes_with_nul()); // 65 bytes
        Ok(())
    })
}
