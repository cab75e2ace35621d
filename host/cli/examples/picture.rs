//! Draws what a program wrote on a terminal, as an SVG for the README (`just pictures`): text with its colours comes on
//! standard input, the drawing goes to standard output. The one argument is `light` or `dark`.

use anstyle::RgbColor;
use anstyle_svg::{Palette, Term};
use anyhow::{Context, ensure};

/// Narrow enough to be read on a telephone, where the picture is scaled to the screen.
const COLUMNS: usize = 78;
const PIXELS_PER_COLUMN: f64 = 8.4;
/// Lines that had to be broken go on this much further to the right.
const CONTINUATION: usize = 2;
/// Strong enough to be read on both backgrounds, and drawn by every browser; anstyle-svg's `opacity: 0.4` is neither.
const DIMMED: &str = "fill-opacity: 0.7;";
/// As much room below the text as anstyle-svg leaves above it, in pixels.
const BELOW: u32 = 8;

struct Scheme {
    background: RgbColor,
    text: RgbColor,
    palette: Palette,
}

/// The colours of GitHub's own code blocks and logs.
const LIGHT: Scheme = Scheme {
    background: rgb(0xf6f8fa),
    text: rgb(0x1f2328),
    palette: palette([
        0x24292f, 0xcf222e, 0x116329, 0x9a6700, 0x0969da, 0x8250df, 0x1b7c83, 0x6e7781, 0x57606a, 0xa40e26, 0x1a7f37,
        0x633c01, 0x218bff, 0xa475f9, 0x3192aa, 0x8c959f,
    ]),
};
const DARK: Scheme = Scheme {
    background: rgb(0x151b23),
    text: rgb(0xf0f6fc),
    palette: palette([
        0x484f58, 0xff7b72, 0x3fb950, 0xd29922, 0x58a6ff, 0xbc8cff, 0x39c5cf, 0xb1bac4, 0x6e7681, 0xffa198, 0x56d364,
        0xe3b341, 0x79c0ff, 0xd2a8ff, 0x56d4dd, 0xf0f6fc,
    ]),
};

const fn rgb(hex: u32) -> RgbColor {
    let [_, red, green, blue] = hex.to_be_bytes();
    RgbColor(red, green, blue)
}

/// The sixteen colours in the order of their codes, the bright ones last.
const fn palette(hex: [u32; 16]) -> Palette {
    let mut colours = [RgbColor(0, 0, 0); 16];
    let mut code = 0;
    while code < colours.len() {
        colours[code] = rgb(hex[code]);
        code += 1;
    }
    Palette(colours)
}

fn main() -> anyhow::Result<()> {
    let scheme = match std::env::args().nth(1).as_deref() {
        Some("light") => LIGHT,
        Some("dark") => DARK,
        _ => anyhow::bail!("the one argument is `light` or `dark`"),
    };
    let output = std::io::read_to_string(std::io::stdin()).context("standard input")?;
    // Without colours it was recorded wrongly: CLICOLOR_FORCE=1 has them written to a file, too.
    ensure!(output.contains('\u{1b}'), "there is no colour in what was recorded");
    print!("{}", drawing(&wrapped(&output), scheme)?);
    Ok(())
}

/// As a terminal of so many columns shows it, but broken between words.
fn wrapped(output: &str) -> String {
    let wrap = |line: &str| {
        let indentation = line.len() - line.trim_start().len();
        let further = " ".repeat(indentation + CONTINUATION);
        textwrap::fill(line, textwrap::Options::new(COLUMNS).subsequent_indent(&further))
    };
    let output = output.lines().map(wrap).collect::<Vec<_>>().join("\n");
    // Marks, not the emoji that some systems show for them.
    output.replace('✔', "✔\u{fe0e}").replace('↩', "↩\u{fe0e}")
}

fn drawing(output: &str, scheme: Scheme) -> anyhow::Result<String> {
    let svg = Term::new()
        .palette(scheme.palette)
        .fg_color(scheme.text.into())
        .bg_color(scheme.background.into())
        .min_width_px((COLUMNS as f64 * PIXELS_PER_COLUMN) as usize)
        .render_svg(output);
    let svg = replaced(&svg, "opacity: 0.4;", DIMMED)?;
    let number = |name: &str| {
        let value = svg.split_once(&format!(" {name}=\"")).and_then(|(_, rest)| rest.split_once("px\""));
        value.and_then(|(value, _)| value.parse::<u32>().ok()).with_context(|| format!("the drawing has no {name}"))
    };
    let (width, height) = (number("width")?, number("height")?);
    // Without a viewBox a browser cuts the picture where there is less room, instead of scaling it.
    let opening = format!("<svg viewBox=\"0 0 {width} {}\" role=\"img\" ", height + BELOW);
    replaced(&replaced(&svg, "<svg ", &opening)?, &format!("{height}px"), &format!("{}px", height + BELOW))
}

/// A replacement that does not silently do nothing when anstyle-svg writes something else one day.
fn replaced(svg: &str, from: &str, to: &str) -> anyhow::Result<String> {
    ensure!(svg.contains(from), "the drawing has no `{from}`");
    Ok(svg.replacen(from, to, 1))
}
