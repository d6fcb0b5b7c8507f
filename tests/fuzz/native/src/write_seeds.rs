//! Writes the seeds into folders for cargo-fuzz: `write_seeds FOLDER...`.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let seeds = xmml_fuzz::seeds::seeds();
    for folder in std::env::args_os().skip(1).map(PathBuf::from) {
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}
