//! Ranks of a parallel program: joining together, their blocks of arrays, gathering.

use std::ffi::{c_char, c_int, c_void, CStr};

use xmml_core::instance::{Instance, JoinOptions, Sent, Stamps};
use xmml_core::team::Team;
use xmml_wire::data::{Array, Data};

use crate::argument::{elements, object, place, place_for_object, text, Elements, Out, Text};
use crate::instance::{known_language, member_and_port, prepare_process, Member};
use crate::pool::put;
use crate::status::{guard, guard_or, Failure, Result, Status};
use crate::value::Value;
use crate::value_api::{lent_array_from_c, order_from_c};

/// `XMML_BLOCK_RANK`.
const BLOCK_RANK: usize = 16;

type Answer = *const c_char;

/// `xmml_team`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CTeam {
    context: *mut c_void,
    rank: u32,
    size: u32,
    give: Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> Answer>,
    take: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> Answer>,
    deliver: Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> Answer>,
    collect: Option<unsafe extern "C" fn(*mut c_void, u32, *mut c_void, usize) -> Answer>,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// A team that the program gave us; released when dropped.
struct Ranks(CTeam);

// SAFETY: the functions are called in the threads in which the program calls xMML, as the header says; what they may do there is the
// program's to know (with MPI: the thread support that it asked for).
unsafe impl Send for Ranks {}
// SAFETY: as above.
unsafe impl Sync for Ranks {}

impl Drop for Ranks {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: xmml_team.h says that this is the last call; it is made once.
            unsafe { release(self.0.context) }
        }
    }
}

const MISSING: &std::ffi::CStr = c"the team does not say how";

/// # Safety
/// `answer` is null or a text.
unsafe fn answer(answer: Answer) -> std::result::Result<(), String> {
    if answer.is_null() {
        return Ok(());
    }
    // SAFETY: promised by the caller; xmml_team.h asks for a text that lives until the next call.
    Err(unsafe { CStr::from_ptr(answer) }.to_string_lossy().into_owned())
}

impl Team for Ranks {
    fn rank(&self) -> u32 {
        self.0.rank
    }

    fn size(&self) -> u32 {
        self.0.size
    }

    fn give(&self, bytes: &[u8]) -> std::result::Result<(), String> {
        // SAFETY: that many bytes can be read; the function is the program's.
        unsafe {
            answer(self.0.give.map_or(MISSING.as_ptr(), |f| f(self.0.context, bytes.as_ptr().cast(), bytes.len())))
        }
    }

    fn take(&self, bytes: &mut [u8]) -> std::result::Result<(), String> {
        let pointer = bytes.as_mut_ptr().cast();
        // SAFETY: that many bytes can be written; the function is the program's.
        unsafe { answer(self.0.take.map_or(MISSING.as_ptr(), |f| f(self.0.context, pointer, bytes.len()))) }
    }

    fn deliver(&self, bytes: &[u8]) -> std::result::Result<(), String> {
        let pointer = bytes.as_ptr().cast();
        // SAFETY: that many bytes can be read; the function is the program's.
        unsafe { answer(self.0.deliver.map_or(MISSING.as_ptr(), |f| f(self.0.context, pointer, bytes.len()))) }
    }

    fn collect(&self, from: u32, bytes: &mut [u8]) -> std::result::Result<(), String> {
        let pointer = bytes.as_mut_ptr().cast();
        // SAFETY: that many bytes can be written; the function is the program's.
        unsafe { answer(self.0.collect.map_or(MISSING.as_ptr(), |f| f(self.0.context, from, pointer, bytes.len()))) }
    }
}

#[no_mangle]
pub extern "C" fn xmml_join_team(me: Out<*mut Member>, team: Option<&CTeam>, language: Text) -> c_int {
    guard(|| {
        let me = place_for_object(me, "me")?;
        let team = Ranks(*object(team, "team")?);
        if team.0.rank >= team.0.size {
            return Err(Failure::usage(format!("rank {} of a team of {}", team.0.rank, team.0.size)));
        }
        let language = known_language(language)?;
        prepare_process();
        let options = JoinOptions { coordinator: None, instance: None, secret_file: None, language };
        me.give(Member::new(Instance::join_team(options, Box::new(team))?));
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn xmml_rank(me: Option<&Member>) -> u32 {
    guard_or(0, || Ok(object(me, "me")?.core.rank()))
}

#[no_mangle]
pub extern "C" fn xmml_ranks(me: Option<&Member>) -> u32 {
    guard_or(1, || Ok(object(me, "me")?.core.ranks()))
}

#[no_mangle]
pub extern "C" fn xmml_prefer_order(me: Option<&Member>, order: c_int) -> c_int {
    guard(|| {
        object(me, "me")?.core.prefer_order(order_from_c(order)?);
        Ok(())
    })
}

/// `xmml_block`.
#[repr(C)]
pub struct CBlock {
    rank: usize,
    shape: [usize; BLOCK_RANK],
    start: [usize; BLOCK_RANK],
    extent: [usize; BLOCK_RANK],
}

fn whole(rank: usize, shape: Elements<usize>) -> Result<Option<Vec<u64>>> {
    if shape.is_null() {
        return Ok(None);
    }
    if rank > BLOCK_RANK {
        return Err(Failure::usage(format!("rank {rank} is more than {BLOCK_RANK}")));
    }
    let shape: &[usize] = elements(shape, rank, "shape")?;
    Ok(Some(shape.iter().map(|&extent| extent as u64).collect()))
}

#[no_mangle]
pub extern "C" fn xmml_block_of(
    me: Option<&Member>,
    port: Text,
    rank: usize,
    shape: Elements<usize>,
    block: Out<CBlock>,
) -> c_int {
    guard(|| {
        let out = place(block, "block")?;
        let (me, port) = member_and_port(me, port)?;
        let (own, whole) = me.core.block(port, whole(rank, shape)?.as_deref())?;
        if whole.len() > BLOCK_RANK {
            let problem =
                format!("{}.{port}: the array has {} dimensions, more than {BLOCK_RANK}", me.name, whole.len());
            return Err(Failure::new(Status::Type, problem));
        }
        let filled = |list: &[u64]| {
            let mut extents = [0; BLOCK_RANK];
            extents.iter_mut().zip(list).for_each(|(place, extent)| *place = *extent as usize);
            extents
        };
        out.set(CBlock {
            rank: whole.len(),
            shape: filled(&whole),
            start: filled(&own.start),
            extent: filled(&own.extent),
        });
        Ok(())
    })
}

fn told(sent: Sent, me: &Member, port: &str) -> Result<()> {
    match sent {
        Sent::Queued | Sent::NotConnected => Ok(()),
        Sent::ReceiverGone => Err(Failure::new(
            Status::ReceiverGone,
            format!("{}.{port}: every receiver has left; the message was dropped", me.name),
        )),
    }
}

fn send_block(me: Option<&Member>, port: Text, data: Data, shape: Option<Vec<u64>>) -> Result<()> {
    let (me, port) = member_and_port(me, port)?;
    told(me.core.send_block(port, None, data, shape.as_deref(), Stamps::default())?, me, port)
}

fn send_gathered(me: Option<&Member>, port: Text, data: Data, decomposition: Text) -> Result<()> {
    let (me, port) = member_and_port(me, port)?;
    let decomposition = me.core.decomposition(text(decomposition, "decomposition")?)?;
    let block = array_of(data)?;
    told(me.core.send_gathered(port, None, block, &decomposition, Stamps::default())?, me, port)
}

fn array_of(data: Data) -> Result<Array> {
    match data {
        Data::Array(array) => Ok(array),
        other => Err(Failure::new(Status::Type, format!("a block is an array, and this is {}", other.describe()))),
    }
}

#[no_mangle]
pub extern "C" fn xmml_send_block(
    me: Option<&Member>,
    port: Text,
    dtype: c_int,
    order: c_int,
    rank: usize,
    extent: Elements<usize>,
    shape: Elements<usize>,
    data: Elements<u8>,
) -> c_int {
    guard(|| send_block(me, port, lent_array_from_c(dtype, order, rank, extent, data)?.to_data(), whole(rank, shape)?))
}

#[no_mangle]
pub extern "C" fn xmml_send_value_block(
    me: Option<&Member>,
    port: Text,
    value: Option<&Value>,
    rank: usize,
    shape: Elements<usize>,
) -> c_int {
    guard(|| send_block(me, port, object(value, "value")?.to_data(), whole(rank, shape)?))
}

#[no_mangle]
#[allow(clippy::too_many_arguments)]
pub extern "C" fn xmml_put_block(
    me: Option<&Member>,
    port: Text,
    dtype: c_int,
    order: c_int,
    rank: usize,
    extent: Elements<usize>,
    shape: Elements<usize>,
    data: Elements<u8>,
    attributes: Text,
    readers: Out<u64>,
) -> c_int {
    let block = || Ok(lent_array_from_c(dtype, order, rank, extent, data)?.to_data());
    guard(|| put(me, port, block, whole(rank, shape)?, attributes, readers))
}

#[no_mangle]
pub extern "C" fn xmml_put_value_block(
    me: Option<&Member>,
    port: Text,
    value: Option<&Value>,
    rank: usize,
    shape: Elements<usize>,
    attributes: Text,
    readers: Out<u64>,
) -> c_int {
    let block = || Ok(object(value, "value")?.to_data());
    guard(|| put(me, port, block, whole(rank, shape)?, attributes, readers))
}

#[no_mangle]
pub extern "C" fn xmml_send_gathered(
    me: Option<&Member>,
    port: Text,
    decomposition: Text,
    dtype: c_int,
    order: c_int,
    rank: usize,
    extent: Elements<usize>,
    data: Elements<u8>,
) -> c_int {
    guard(|| send_gathered(me, port, lent_array_from_c(dtype, order, rank, extent, data)?.to_data(), decomposition))
}

#[no_mangle]
pub extern "C" fn xmml_send_value_gathered(
    me: Option<&Member>,
    port: Text,
    decomposition: Text,
    value: Option<&Value>,
) -> c_int {
    guard(|| send_gathered(me, port, object(value, "value")?.to_data(), decomposition))
}
