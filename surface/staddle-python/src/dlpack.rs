//! DLPack by hand: a capsule over shared memory, for torch, JAX, CuPy and NumPy.
//!
//! A consumer that says `max_version >= (1, 0)` gets the versioned struct; one that asks without arguments, as NumPy
//! 1.24 and torch 1.13 do, gets the legacy one. Packed memory is private and writable, so neither needs a read-only
//! flag. The capsule owns the memory until a consumer renames it and takes that over.

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use staddle_record::options::Dtype;

use crate::memory::Shared;

const LEGACY: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const CPU: i32 = 1;

#[repr(C)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Legacy {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Legacy)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

const _: () = assert!(size_of::<Tensor>() == 48);
const _: () = assert!(size_of::<Legacy>() == 64);
const _: () = assert!(size_of::<Versioned>() == 80);

/// What the tensor points to.
struct Owned {
    _memory: Arc<Shared>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// A tensor to hand out.
pub(crate) struct Export<'a> {
    /// The memory; row-major from its first byte.
    pub(crate) memory: &'a Arc<Shared>,
    /// Element type.
    pub(crate) dtype: Dtype,
    /// Sides; the product times the element size is at most the memory.
    pub(crate) shape: &'a [usize],
}

fn type_code(dtype: Dtype) -> DataType {
    let code = match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => 0,
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => 1,
        Dtype::F16 | Dtype::F32 | Dtype::F64 => 2,
        Dtype::Bf16 => 4,
        Dtype::Bool => 6,
    };
    let bits = u8::try_from(dtype.bytes() * 8).unwrap_or(8);
    DataType {
        code,
        bits,
        lanes: 1,
    }
}

impl Export<'_> {
    /// The capsule: versioned when `max_version` allows it, else legacy.
    pub(crate) fn capsule<'py>(
        &self,
        py: Python<'py>,
        max_version: Option<(u32, u32)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let need = self.shape.iter().product::<usize>() * self.dtype.bytes();
        if need > self.memory.len() {
            return Err(PyBufferError::new_err(
                "the shape asks for more than the memory has",
            ));
        }
        let mut owned = self.owned();
        let tensor = Tensor {
            data: self.memory.data().cast(),
            device: Device { kind: CPU, id: 0 },
            ndim: i32::try_from(self.shape.len()).unwrap_or(i32::MAX),
            dtype: type_code(self.dtype),
            shape: owned.shape.as_mut_ptr(),
            strides: owned.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let context = Box::into_raw(owned).cast::<c_void>();
        if max_version.is_some_and(|version| version >= (1, 0)) {
            let managed = Box::new(Versioned {
                major: 1,
                minor: 0,
                context,
                deleter: Some(delete_versioned),
                flags: 0,
                tensor,
            });
            let raw = Box::into_raw(managed);
            new_capsule(py, raw.cast(), VERSIONED, drop_versioned).inspect_err(|_| {
                // SAFETY: no capsule was made, so this is the only owner.
                unsafe { delete_versioned(raw) }
            })
        } else {
            let managed = Box::new(Legacy {
                tensor,
                context,
                deleter: Some(delete_legacy),
            });
            let raw = Box::into_raw(managed);
            new_capsule(py, raw.cast(), LEGACY, drop_legacy).inspect_err(|_| {
                // SAFETY: no capsule was made, so this is the only owner.
                unsafe { delete_legacy(raw) }
            })
        }
    }

    fn owned(&self) -> Box<Owned> {
        let shape: Vec<i64> = self
            .shape
            .iter()
            .map(|side| i64::try_from(*side).unwrap_or(i64::MAX))
            .collect();
        let mut strides = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis].max(1);
        }
        Box::new(Owned {
            _memory: Arc::clone(self.memory),
            shape,
            strides,
        })
    }
}

fn new_capsule<'py>(
    py: Python<'py>,
    pointer: *mut c_void,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the pointer is not null, the name is static, and the destructor frees exactly this struct.
    unsafe {
        Bound::from_owned_ptr_or_err(
            py,
            ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destructor)),
        )
    }
}

/// Frees a legacy tensor; consumers call it, with or without the interpreter lock.
unsafe extern "C" fn delete_legacy(raw: *mut Legacy) {
    if raw.is_null() {
        return;
    }
    // SAFETY: `raw` came from `Box::into_raw` in `capsule`, and DLPack calls the deleter once; the context is the
    // `Owned` made beside it. Neither holds a Python object.
    unsafe {
        let managed = Box::from_raw(raw);
        drop(Box::from_raw(managed.context.cast::<Owned>()));
    }
}

/// Frees a versioned tensor; consumers call it, with or without the interpreter lock.
unsafe extern "C" fn delete_versioned(raw: *mut Versioned) {
    if raw.is_null() {
        return;
    }
    // SAFETY: as in `delete_legacy`.
    unsafe {
        let managed = Box::from_raw(raw);
        drop(Box::from_raw(managed.context.cast::<Owned>()));
    }
}

/// Frees what nobody consumed: a consumer renames the capsule.
unsafe extern "C" fn drop_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: Python passes the capsule that is being freed; under its first name it still owns the tensor.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) == 1 {
            delete_legacy(ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast());
        }
    }
}

/// Frees what nobody consumed: a consumer renames the capsule.
unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `drop_legacy`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}
