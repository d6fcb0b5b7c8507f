//! TLS 1.3 on a stream. Nothing here waits: what the socket does not take is kept and goes first the next time.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard};

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, Connection};

use xmml_wire::lock::lock;
use xmml_wire::methods::Stream as Wire;

use super::credentials::{Fingerprint, Tls, SERVER};

/// Bytes that are read from the socket at once.
const READ: usize = 128 * 1024;

/// Bytes that are encrypted ahead of what the socket takes.
const AHEAD: usize = 256 * 1024;

/// The same while the two ends have not come to terms: a stranger costs no more memory than this.
const READ_OF_STRANGERS: usize = 4 * 1024;

/// The label under which the channel is taken out of TLS (RFC 5705).
const CHANNEL: &[u8] = b"EXPORTER-xmml-channel";

/// A stream of bytes inside TLS.
pub struct TlsWire {
    socket: Box<dyn Wire>,
    /// Of the certificate of this end, and whether this is the end that dialled.
    mine: Fingerprint,
    dialled: bool,
    state: Mutex<TlsState>,
}

struct TlsState {
    connection: Connection,
    /// Read and not decrypted yet.
    staging: Box<[u8]>,
    from: usize,
    to: usize,
    /// The last read of the socket got less than it asked for: more is told by the descriptor.
    is_drained: bool,
    /// The other end has closed its direction.
    is_at_end: bool,
    /// Bytes that came by the socket.
    received: u64,
}

impl TlsWire {
    /// The side that dials.
    ///
    /// # Errors
    /// If TLS cannot begin; no bytes have passed then.
    pub fn client(socket: Box<dyn Wire>, tls: &Tls) -> io::Result<TlsWire> {
        let name = ServerName::try_from(SERVER).map_err(io::Error::other)?;
        let connection = rustls::ClientConnection::new(tls.client.clone(), name).map_err(io::Error::other)?;
        Ok(TlsWire::over(socket, connection.into(), tls.fingerprint(), true))
    }

    /// The side that was dialled; `first` is what has been read from the socket already, to see that it is TLS.
    ///
    /// # Errors
    /// If TLS cannot begin; no bytes have passed then.
    pub fn server(socket: Box<dyn Wire>, tls: &Tls, first: &[u8]) -> io::Result<TlsWire> {
        let connection = rustls::ServerConnection::new(tls.server.clone()).map_err(io::Error::other)?;
        let wire = TlsWire::over(socket, connection.into(), tls.fingerprint(), false);
        let mut state = wire.state();
        let Some(staged) = state.staging.get_mut(..first.len()) else {
            return Err(io::Error::other("more was read than belongs before TLS"));
        };
        staged.copy_from_slice(first);
        state.to = first.len();
        state.received = first.len() as u64;
        drop(state);
        Ok(wire)
    }

    fn over(socket: Box<dyn Wire>, mut connection: Connection, mine: Fingerprint, dialled: bool) -> TlsWire {
        connection.set_buffer_limit(Some(AHEAD));
        let staging = vec![0; READ].into_boxed_slice();
        let state = TlsState { connection, staging, from: 0, to: 0, is_drained: false, is_at_end: false, received: 0 };
        TlsWire { socket, mine, dialled, state: Mutex::new(state) }
    }

    /// Bytes that came by the socket, so that whoever takes strangers in can bound them.
    pub fn received(&self) -> u64 {
        self.state().received
    }

    fn state(&self) -> MutexGuard<'_, TlsState> {
        lock(&self.state)
    }
}

/// What a connection writes its records to.
struct Socket<'a>(&'a dyn Wire);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsState {
    /// Writes what is encrypted; `WouldBlock` while the socket does not take all of it.
    fn flush(&mut self, socket: &dyn Wire) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Socket(socket)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Decrypts what has been read.
    fn decrypt(&mut self, socket: &dyn Wire) -> io::Result<()> {
        while self.from < self.to {
            let mut staged = &self.staging[self.from..self.to];
            let count = self.connection.read_tls(&mut staged)?;
            self.from += count;
            match self.connection.process_new_packets() {
                Ok(status) if status.plaintext_bytes_to_read() > 0 => return Ok(()),
                Ok(_) => {}
                Err(error) => {
                    let _ = self.flush(socket); // the other end learns why, if it still listens
                    return Err(io::Error::new(io::ErrorKind::InvalidData, explained(&error)));
                }
            }
        }
        Ok(())
    }
}

impl Wire for TlsWire {
    fn fd(&self) -> RawFd {
        self.socket.fd()
    }

    fn peer(&self) -> &str {
        self.socket.peer()
    }

    fn reads_ahead(&self) -> bool {
        let state = self.state();
        !state.is_drained || state.from < state.to
    }

    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        loop {
            match state.connection.reader().read(into) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) => return Err(error),
            }
            if state.from < state.to {
                state.decrypt(&*self.socket)?;
                if state.connection.wants_write() {
                    would_block_is_fine(state.flush(&*self.socket))?;
                }
                continue;
            }
            if state.is_at_end {
                return Ok(0);
            }
            let most = if state.connection.is_handshaking() { READ_OF_STRANGERS } else { READ };
            let TlsState { staging, .. } = &mut *state;
            let count = self.socket.read(&mut staging[..most])?;
            (state.from, state.to) = (0, count);
            state.is_drained = count < most;
            state.received += count as u64;
            if count == 0 {
                state.is_at_end = true;
                let mut nothing: &[u8] = &[];
                state.connection.read_tls(&mut nothing)?;
            }
        }
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.state();
        if !state.connection.is_handshaking() {
            state.flush(&*self.socket)?;
        }
        // As one record, if it is short: each costs the other end as much to open as a message does.
        let count = state.connection.writer().write_vectored(parts)?;
        would_block_is_fine(state.flush(&*self.socket))?;
        match count {
            0 if parts.iter().any(|part| !part.is_empty()) => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.state().flush(&*self.socket)
    }

    fn channel(&self) -> io::Result<Option<[u8; 32]>> {
        let state = self.state();
        let certificates = state.connection.peer_certificates().unwrap_or_default();
        let Some(theirs) = certificates.first().map(|certificate| Fingerprint::of(certificate)) else {
            return Err(io::Error::other("the other end has shown no certificate yet"));
        };
        let (dialler, listener) = if self.dialled { (self.mine, theirs) } else { (theirs, self.mine) };
        let both = [dialler.bytes(), listener.bytes()].concat();
        state.connection.export_keying_material([0; 32], CHANNEL, Some(&both)).map(Some).map_err(io::Error::other)
    }

    fn can_fall_silent(&self) -> bool {
        self.socket.can_fall_silent()
    }

    fn shut(&self) {
        self.socket.shut();
    }
}

/// What is not out goes the next time; a socket that is not connected yet takes nothing either.
fn would_block_is_fine(status: io::Result<()>) -> io::Result<()> {
    match status {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) => Ok(()),
        status => status,
    }
}

/// Why the two ends do not come together, and what to do.
fn explained(error: &rustls::Error) -> String {
    let theirs = |what: &str| format!("its certificate {what}");
    let mine = |what: &str| format!("it refuses the certificate of this end, which {what} there");
    const UNKNOWN: &str = "is not one of those that are trusted";
    match error {
        rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => theirs(UNKNOWN),
        rustls::Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            theirs("has expired; make new ones for the run, and compare the clocks of the two hosts")
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => theirs("is not valid yet; compare the clocks of the two hosts"),
        rustls::Error::NoCertificatesPresented => "it shows no certificate".to_owned(),
        rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => mine("has expired"),
        rustls::Error::AlertReceived(
            AlertDescription::AccessDenied | AlertDescription::BadCertificate | AlertDescription::CertificateUnknown,
        ) => mine(UNKNOWN),
        rustls::Error::InvalidMessage(_) => {
            "it does not speak TLS: encrypt the path at both ends, or at none".to_owned()
        }
        other => format!("it cannot be spoken to in TLS: {other}"),
    }
}
