//! Errors as Java exceptions, and the fence that no panic passes.

use std::panic::{catch_unwind, AssertUnwindSafe};

use jni::JNIEnv;
use xmml_wire::error::Error;

/// What keeps a call from giving a result.
pub enum Failure {
    /// Thrown by the virtual machine already.
    Thrown,
    /// An exception of this class, with a text.
    Exception(&'static str, String),
}

/// Result of what a call does.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A mistake of the caller.
    pub fn usage(problem: impl Into<String>) -> Failure {
        Failure::Exception("org/xmml/XmmlException", problem.into())
    }
}

impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Failure {
        match error {
            jni::errors::Error::JavaException => Failure::Thrown,
            jni::errors::Error::NullPtr(_) => Failure::Exception("java/lang/NullPointerException", error.to_string()),
            _ => Failure::usage(error.to_string()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        if let Error::Callback { .. } = error {
            return Failure::Thrown; // by the callback; it is still pending
        }
        let class = match &error {
            Error::NotInARun { .. } => "org/xmml/NotInARunException",
            Error::PortUnknown { .. }
            | Error::PortDirection { .. }
            | Error::NotConnected { .. }
            | Error::NoStateYet { .. } => "org/xmml/PortException",
            Error::OperatorOrder { .. } => "org/xmml/OrderException",
            Error::Ended { .. } => "org/xmml/EndedException",
            Error::TimedOut { .. } => "org/xmml/ReceiveTimeoutException",
            Error::Type { .. } => "org/xmml/DataTypeException",
            Error::Parameter { .. } => "org/xmml/ParameterException",
            Error::Aborted { .. } => "org/xmml/RunAbortedException",
            Error::Interrupted => "org/xmml/WaitInterruptedException",
            _ => "org/xmml/XmmlException",
        };
        Failure::Exception(class, error.to_string())
    }
}

/// Runs the body of a call. Whatever goes wrong becomes a pending exception, and the result, which nobody will look at, the default.
pub fn guard<'local, T: Default>(env: &mut JNIEnv<'local>, call: impl FnOnce(&mut JNIEnv<'local>) -> Result<T>) -> T {
    let failure = match catch_unwind(AssertUnwindSafe(|| call(env))) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
            Failure::Exception("java/lang/InternalError", format!("a defect of xMML, please report it: {text}"))
        }
    };
    if let Failure::Exception(class, text) = failure {
        // If even that fails, the virtual machine has thrown something of its own.
        let _ = env.throw_new(class, text);
    }
    T::default()
}
