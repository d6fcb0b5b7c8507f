//! What the kernel knows of a TCP connection (TCP_INFO).

use std::os::fd::RawFd;
use std::time::Duration;

/// The figures that a path looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round trip time.
    pub round_trip: Duration,
    /// The shortest that was seen.
    pub least_round_trip: Duration,
    /// Segments under way that are not acknowledged.
    pub unacked: u32,
    /// Since the last acknowledgement.
    pub since_ack: Duration,
    /// Segments that were sent again, in all.
    pub retransmitted: u32,
    /// Bytes that the other end has acknowledged.
    pub acked: u64,
    /// How long there was something to send.
    pub busy: Duration,
    /// How long of that the window of the other end held it up.
    pub held_by_receiver: Duration,
    /// How long of that the own send buffer held it up.
    pub held_by_sender: Duration,
    /// Bytes per second that were delivered last.
    pub delivery_rate: u64,
}

/// Where the fields lie in `struct tcp_info` of linux/tcp.h; older kernels know fewer, and leave the rest zero.
mod at {
    pub const UNACKED: usize = 24;
    pub const LAST_ACK: usize = 56;
    pub const RTT: usize = 68;
    pub const TOTAL_RETRANS: usize = 100;
    pub const BYTES_ACKED: usize = 120;
    pub const MIN_RTT: usize = 148;
    pub const DELIVERY_RATE: usize = 160;
    pub const BUSY: usize = 168;
    pub const RWND_LIMITED: usize = 176;
    pub const SNDBUF_LIMITED: usize = 184;
}

impl TcpInfo {
    /// Asks the kernel; `None` if this is no TCP connection.
    pub fn of(fd: RawFd) -> Option<TcpInfo> {
        let mut bytes = [0u8; 256];
        let mut length = bytes.len() as libc::socklen_t;
        // SAFETY: the pointers describe `bytes` and `length`, which outlive the call.
        let status = unsafe {
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, bytes.as_mut_ptr().cast(), &raw mut length)
        };
        if status != 0 {
            return None;
        }
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let micros = |at: usize| Duration::from_micros(u64_at(at));
        Some(TcpInfo {
            round_trip: Duration::from_micros(u32_at(at::RTT).into()),
            least_round_trip: Duration::from_micros(u32_at(at::MIN_RTT).into()),
            unacked: u32_at(at::UNACKED),
            since_ack: Duration::from_millis(u32_at(at::LAST_ACK).into()),
            retransmitted: u32_at(at::TOTAL_RETRANS),
            acked: u64_at(at::BYTES_ACKED),
            busy: micros(at::BUSY),
            held_by_receiver: micros(at::RWND_LIMITED),
            held_by_sender: micros(at::SNDBUF_LIMITED),
            delivery_rate: u64_at(at::DELIVERY_RATE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn the_kernel_tells_what_was_acknowledged_and_how_long_it_takes() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        here.write_all(&[1; 1000]).unwrap();
        there.read_exact(&mut [0; 1000]).unwrap();
        there.write_all(&[1]).unwrap();
        here.read_exact(&mut [0]).unwrap();
        let info = TcpInfo::of(here.as_raw_fd()).unwrap();
        assert!(info.acked >= 1000, "{info:?}");
        assert!(info.round_trip > Duration::ZERO && info.round_trip < Duration::from_secs(1), "{info:?}");
        assert_eq!(TcpInfo::of(0).map(|info| info.acked).unwrap_or(0), 0);
    }
}
