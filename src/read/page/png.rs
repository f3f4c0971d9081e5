//! Pictures of few colours as PNG (RFC 2083): a palette, a byte a pixel.

use std::io::{self, Write};

use flate2::Compression;
use flate2::Crc;
use flate2::write::ZlibEncoder;

/// A picture of `width` pixels a row, each the number of a colour of `palette`.
///
/// # Errors
/// None that a buffer in memory has.
pub fn png(width: usize, pixels: &[u8], palette: &[[u8; 3]]) -> io::Result<Vec<u8>> {
    let rows = pixels.chunks_exact(width.max(1));
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    let size = [width as u32, rows.len() as u32].map(u32::to_be_bytes).concat();
    // Eight bits a pixel, a palette, no interlacing.
    chunk(&mut out, b"IHDR", &[&size, [8, 3, 0, 0, 0].as_slice()].concat());
    chunk(&mut out, b"PLTE", palette.as_flattened());
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::new(6));
    for row in rows {
        // Each row as it is.
        packed.write_all(&[0])?;
        packed.write_all(row)?;
    }
    chunk(&mut out, b"IDAT", &packed.finish()?);
    chunk(&mut out, b"IEND", &[]);
    Ok(out)
}

fn chunk(out: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    let mut sum = Crc::new();
    sum.update(kind);
    sum.update(data);
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(kind);
    out.extend_from_slice(data);
    out.extend_from_slice(&sum.sum().to_be_bytes());
}

/// Bytes as text (RFC 4648), for a picture inside a page.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let letter = |i: usize| char::from(LETTERS[(bits >> (18 - 6 * i)) as usize & 63]);
        out.extend((0..4).map(|i| if i <= three.len() { letter(i) } else { '=' }));
    }
    out
}
