//! `cargo x test`: sets everything up, runs every test there is, and ends with the counts alone on the last line.
//!
//! Nothing stops at the first failure: whoever waits for a full run gets the full list. What cannot run here is skipped with its
//! reason; under `CI=true` S3 and torch may not be missing, so there a skip of those is a failure.

use crate::cmd::{Cmd, colours};
use crate::metadata::Graph;
use crate::place::Place;
use crate::python::{Needs, Venv};
use crate::services::{S3, S3Server};
use crate::stamp::files_below;
use crate::step::{Failure, Result, step};
use crate::tally::{self, Tally};
use crate::wheel::{self, Build};
use crate::{torch, transcripts};

/// pytest's exit code for "no test matched".
const NO_TESTS: i32 = 5;

/// What to run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) rust: bool,
    pub(crate) python: bool,
    pub(crate) filters: Vec<String>,
}

impl Plan {
    pub(crate) fn parse(args: &[String]) -> Result<Self> {
        let (mut rust, mut python, mut filters) = (false, false, Vec::new());
        for arg in args {
            match arg.as_str() {
                "--rust" => rust = true,
                "--python" => python = true,
                flag if flag.starts_with('-') => {
                    return Err(Failure::usage(format!(
                        "`cargo x test` does not know {flag}; it takes --rust, --python and names"
                    )));
                }
                name => filters.push(name.to_owned()),
            }
        }
        let both = rust == python;
        Ok(Self {
            rust: rust || both,
            python: python || both,
            filters,
        })
    }

    /// Everything, as CI runs it.
    fn full(&self) -> bool {
        self.rust && self.python && self.filters.is_empty()
    }
}

pub(crate) fn test(place: &Place, args: &[String]) -> Result {
    let plan = Plan::parse(args)?;
    let ci = is_ci();
    let mut total = Tally::default();
    let venv = Venv::ready(place, "venv", &Needs::All)?;
    let s3 = start_s3(place, &venv, ci, &mut total);
    let endpoint = s3.as_ref().map(S3Server::endpoint);

    if plan.rust {
        total.add(step("Rust tests", || {
            rust_tests(place, &plan, endpoint.as_deref())
        })?);
        total.add(step("Rust documentation examples", || {
            doctests(place, &plan)
        })?);
    }
    if plan.python {
        match wheel::install(place, &venv, &venv, Build::Checked) {
            Ok(()) => python_side(place, &plan, &venv, endpoint.as_deref(), ci, &mut total)?,
            Err(failure) => {
                eprintln!("{failure}");
                total.fail("Python wheel: it does not build, so no Python test ran");
            }
        }
    }
    drop(s3);
    if !plan.full() {
        total.skip(
            1,
            "the rest of the suite: this run was narrowed by its arguments",
        );
    }
    eprintln!();
    println!("{}", total.closing());
    if total.failed == 0 {
        Ok(())
    } else {
        Err(Failure::new("some tests failed; they are named above"))
    }
}

/// Whether missing services are failures.
fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

fn start_s3(place: &Place, venv: &Venv, ci: bool, total: &mut Tally) -> Option<S3Server> {
    match step("S3 service (moto_server)", || S3Server::start(place, venv)) {
        Ok(server) => Some(server),
        Err(failure) => {
            missing(total, ci, format!("tests that need S3: {}", failure.what));
            None
        }
    }
}

/// Something that tests need is not there: a failure in CI, a skip with its reason elsewhere.
fn missing(total: &mut Tally, ci: bool, reason: String) {
    if ci {
        total.fail(format!("{reason} (CI=true: it may not be missing)"));
    } else {
        total.skip(1, reason);
    }
}

fn rust_tests(place: &Place, plan: &Plan, s3: Option<&str>) -> Result<Tally> {
    let with_s3 = |command: Cmd| match s3 {
        Some(endpoint) => command.env(S3, endpoint),
        None => command.env_remove(S3),
    };
    if Cmd::cargo().args(["nextest", "--version"]).succeeds() {
        let mut command = with_s3(Cmd::cargo())
            .args([
                "nextest",
                "run",
                "--workspace",
                "--locked",
                "--no-fail-fast",
            ])
            .args([
                "--no-tests",
                "pass",
                "--color",
                if colours() { "always" } else { "never" },
            ])
            .dir(&place.root);
        if is_ci() {
            command = command.args(["--profile", "ci"]);
        }
        let heard = command.args(&plan.filters).listen()?;
        return Ok(tally::nextest(&heard.text).honest("Rust tests", &heard, &[]));
    }
    eprintln!(
        "   cargo-nextest is not installed; `cargo test` runs the same tests, one program after another"
    );
    let mut total = Tally::default();
    // `cargo test` takes one filter; several mean several runs.
    let filters: Vec<Option<&String>> = if plan.filters.is_empty() {
        vec![None]
    } else {
        plan.filters.iter().map(Some).collect()
    };
    for filter in filters {
        let heard = with_s3(Cmd::cargo())
            .args([
                "test",
                "--workspace",
                "--locked",
                "--no-fail-fast",
                "--lib",
                "--bins",
                "--tests",
            ])
            .args(filter)
            .dir(&place.root)
            .listen()?;
        total.add(tally::libtest(&heard.text).honest("Rust tests", &heard, &[]));
    }
    Ok(total)
}

/// nextest does not run documentation examples; cargo does.
fn doctests(place: &Place, plan: &Plan) -> Result<Tally> {
    let graph = Graph::load(place)?;
    if !graph.members().any(|member| member.doctests) {
        return Ok(Tally::default());
    }
    let mut command = Cmd::cargo()
        .args(["test", "--doc", "--workspace", "--locked", "--no-fail-fast"])
        .dir(&place.root);
    if let Some(filter) = plan.filters.first() {
        command = command.arg("--").arg(filter);
    }
    let heard = command.listen()?;
    Ok(tally::libtest(&heard.text).honest("Rust documentation examples", &heard, &[]))
}

fn python_side(
    place: &Place,
    plan: &Plan,
    venv: &Venv,
    s3: Option<&str>,
    ci: bool,
    total: &mut Tally,
) -> Result {
    total.add(step("Python tests", || {
        pytest(place, plan, venv, s3, Some("not torch"))
    })?);
    if !plan.filters.is_empty() {
        total.add(step("Python tests with torch", || {
            with_torch(place, plan, venv, s3, ci)
        })?);
        return Ok(());
    }
    let stubs = step(
        "type stubs against the native module (mypy.stubtest)",
        || stubtest(place, venv),
    );
    total.add(announce("mypy.stubtest", &stubs));
    let types = step(
        "types of the package and the examples (mypy --strict)",
        || mypy(place, venv),
    );
    total.add(announce("mypy --strict", &types));
    total.add(step("README, guides and example programs", || {
        transcripts::run(place, venv)
    })?);
    let demo = step("the demo on a small input", || small_demo(place, venv));
    total.add(announce("staddle demo", &demo));
    total.add(step("Python tests with torch", || {
        with_torch(place, plan, venv, s3, ci)
    })?);
    Ok(())
}

/// A step that is one test; its reason goes to the log here, its first line to the end.
fn announce(name: &str, done: &Result) -> Tally {
    if let Err(failure) = done {
        eprintln!("{failure}");
    }
    Tally::of_step(name, done)
}

fn pytest(
    place: &Place,
    plan: &Plan,
    venv: &Venv,
    s3: Option<&str>,
    marker: Option<&str>,
) -> Result<Tally> {
    let mut command = venv
        .command("python")
        .args(["-m", "pytest"])
        .dir(&place.root);
    command = match s3 {
        Some(endpoint) => command.env(S3, endpoint),
        None => command.env_remove(S3),
    };
    if let Some(marker) = marker {
        command = command.args(["-m", marker]);
    }
    if !plan.filters.is_empty() {
        command = command.arg("-k").arg(plan.filters.join(" or "));
    }
    if colours() {
        command = command.arg("--color=yes");
    }
    let heard = command.listen()?;
    let name = format!("Python tests ({})", venv.name);
    // No match is an answer to a filter, and a mistake without one.
    let fine: &[i32] = if plan.filters.is_empty() && marker != Some("torch") {
        &[]
    } else {
        &[NO_TESTS]
    };
    Ok(tally::pytest(&heard.text).honest(&name, &heard, fine))
}

fn with_torch(
    place: &Place,
    plan: &Plan,
    venv: &Venv,
    s3: Option<&str>,
    ci: bool,
) -> Result<Tally> {
    match torch::environment(place, venv) {
        Ok(torch) => pytest(place, plan, &torch, s3, Some("torch")),
        Err(failure) => {
            let mut tally = Tally::default();
            missing(
                &mut tally,
                ci,
                format!(
                    "tests that need torch: {}",
                    failure.what.lines().next().unwrap_or_default()
                ),
            );
            Ok(tally)
        }
    }
}

fn stubtest(place: &Place, venv: &Venv) -> Result {
    // Without a stub mypy.stubtest finds nothing to complain about.
    place.need(
        "surface/staddle-python/python/staddle/_native.pyi",
        "it says what the native module offers",
    )?;
    let config = place.root.join("pyproject.toml");
    // From an empty folder: in the checkout, Python would find the package's source without its native module.
    venv.command("python")
        .args([
            "-m",
            "mypy.stubtest",
            "staddle._native",
            "--mypy-config-file",
        ])
        .arg(config)
        .dir(&place.x)
        .output()
        .map(|_| ())
}

fn mypy(place: &Place, venv: &Venv) -> Result {
    let config = place.root.join("pyproject.toml");
    let mypy = || {
        let command = venv.command("python").args([
            "-m",
            "mypy",
            "--strict",
            "--no-error-summary",
            "--config-file",
        ]);
        command
            .arg(&config)
            .arg("--cache-dir")
            .arg(place.x.join("mypy-cache"))
            .dir(&place.x)
    };
    mypy().args(["-p", "staddle"]).output()?;
    let examples = place.root.join("examples/python");
    for program in if examples.exists() {
        files_below(&examples)?
    } else {
        Vec::new()
    } {
        if program.extension().is_some_and(|kind| kind == "py") {
            mypy().arg(&program).output()?; // one at a time: all of them are the module `__main__`
        }
    }
    Ok(())
}

/// The main job end to end on this crate's own sources.
fn small_demo(place: &Place, venv: &Venv) -> Result {
    venv.command("staddle")
        .args(["demo", "--input"])
        .arg(place.root.join("xtask/src"))
        .dir(&place.x)
        .output()
        .map(|_| ())
}

#[cfg(test)]
mod tests;
