//! How a new set is made: the flags that `import` and `adopt` share.

use staddle_base::{Result, size};
use staddle_record::{CodecChoice, Dtype, Options};

/// How the new set is made
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The new set")]
pub(super) struct SetArguments {
    /// Compress records: none, deflate, lz4, zstd, or auto to decide on the first ones
    #[arg(long, default_value = "none", value_name = "CODEC")]
    codec: String,
    /// Compression level: deflate 1-9, zstd 1-19
    #[arg(long, default_value_t = 3, value_name = "N")]
    level: i32,
    /// Train a zstd dictionary on the first records and use it where it helps
    #[arg(long)]
    dictionary: bool,
    /// Records are arrays of this type, as f32
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<String>,
    /// Shape of each record, as 3,224,224; needs --dtype
    #[arg(long, value_name = "SIDES", value_delimiter = ',')]
    shape: Option<Vec<u64>>,
    /// Begin a new chunk file beyond this size
    #[arg(long, default_value = "1GiB", value_name = "SIZE")]
    chunk_bytes: String,
    /// Payload addresses are multiples of this: 8, 64 or 4096
    #[arg(long, default_value_t = 8, value_name = "BYTES")]
    align: u32,
    /// Chunk files written side by side
    #[arg(long, default_value_t = 1, value_name = "N")]
    writers: usize,
}

impl SetArguments {
    /// The options that these flags say.
    pub(super) fn options(&self) -> Result<Options> {
        let options = Options {
            codec: CodecChoice::parse(&self.codec)?,
            level: self.level,
            dictionary: self.dictionary,
            dtype: self.dtype.as_deref().map(Dtype::parse).transpose()?,
            shape: self.shape.clone(),
            chunk_bytes: size::parse(&self.chunk_bytes)?,
            align: self.align,
            writers: self.writers,
            ..Options::default()
        };
        options.check()?;
        Ok(options)
    }
}
