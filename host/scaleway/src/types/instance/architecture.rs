use crate::types::word::words;

words! {
    /// A processor architecture.
    pub enum Architecture {
        /// AMD and Intel, 64 bits.
        X86_64 = "x86_64",
        /// ARM, 64 bits.
        Arm64 = "arm64",
        /// ARM, 32 bits; historical.
        Arm = "arm",
    }
}
