#![allow(dead_code, unused_imports, clippy::all)]
pub use alloc_crate::string::String;
pub use alloc_crate::vec::Vec;
pub use alloc_crate::alloc;
pub unsafe fn string_lift(bytes: Vec<u8>) -> String {
    if cfg!(debug_assertions) {
        String::from_utf8(bytes).unwrap()
    } else {
        unsafe { String::from_utf8_unchecked(bytes) }
    }
}
pub unsafe fn cabi_dealloc(ptr: *mut u8, size: usize, align: usize) {
    if size == 0 {
        return;
    }
    unsafe {
        let layout = alloc::Layout::from_size_align_unchecked(size, align);
        alloc::dealloc(ptr, layout);
    }
}
pub unsafe fn bool_lift(val: u8) -> bool {
    if cfg!(debug_assertions) {
        match val {
            0 => false,
            1 => true,
            _ => panic!("invalid bool discriminant"),
        }
    } else {
        val != 0
    }
}
pub unsafe fn invalid_enum_discriminant<T>() -> T {
    if cfg!(debug_assertions) {
        panic!("invalid enum discriminant")
    } else {
        unsafe { core::hint::unreachable_unchecked() }
    }
}
#[cfg(target_arch = "wasm32")]
pub fn run_ctors_once() {
    wit_bindgen::rt::run_ctors_once();
}
pub fn as_i32<T: AsI32>(t: T) -> i32 {
    t.as_i32()
}
pub trait AsI32 {
    fn as_i32(self) -> i32;
}
impl<'a, T: Copy + AsI32> AsI32 for &'a T {
    fn as_i32(self) -> i32 {
        (*self).as_i32()
    }
}
impl AsI32 for i32 {
    #[inline]
    fn as_i32(self) -> i32 {
        self as i32
    }
}
impl AsI32 for u32 {
    #[inline]
    fn as_i32(self) -> i32 {
        self as i32
    }
}
impl AsI32 for i16 {
    #[inline]
    fn as_i32(self) -> i32 {
        self as i32
    }
}
impl AsI32 for u16 {
    #[inline]
    fn as_i32(self) -> i32 {
        self as i32
    }
}
impl AsI32 for i8 {
    #[inline]
    fn as_i32(self) -> i32 {
        self as i32
    }
}
impl AsI32 for u8 {
    #[inline]
    fn as_i32(self) -> i32 {
        self as i32
    }
}
impl AsI32 for char {
    #[inline]
    fn as_i32(self) -> i32 {
        self as i32
    }
}
impl AsI32 for usize {
    #[inline]
    fn as_i32(self) -> i32 {
        self as i32
    }
}
pub fn as_i64<T: AsI64>(t: T) -> i64 {
    t.as_i64()
}
pub trait AsI64 {
    fn as_i64(self) -> i64;
}
impl<'a, T: Copy + AsI64> AsI64 for &'a T {
    fn as_i64(self) -> i64 {
        (*self).as_i64()
    }
}
impl AsI64 for i64 {
    #[inline]
    fn as_i64(self) -> i64 {
        self as i64
    }
}
impl AsI64 for u64 {
    #[inline]
    fn as_i64(self) -> i64 {
        self as i64
    }
}
extern crate alloc as alloc_crate;
