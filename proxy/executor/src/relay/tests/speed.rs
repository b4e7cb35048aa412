//! What the relay costs. Run with: `cargo test --release -p countersign --lib -- --ignored --nocapture speed`.

use super::*;
use crate::relay::ProcessStarter;
use crate::upstream::child::ChildSpec;
use tokio::io::{AsyncRead, AsyncWrite};

const ECHO: &str = "import sys\nfor line in sys.stdin:\n    i=line.index('\"id\":')+5\n    n=line[i:line.index(',',i)]\n    r='{\"tools\":[]}' if 'tools/list' in line else '{\"content\":[]}'\n    sys.stdout.write('{\"jsonrpc\":\"2.0\",\"id\":'+n+',\"result\":'+r+'}\\n');sys.stdout.flush()\n";

async fn measure(mut input: impl AsyncWrite + Unpin, output: impl AsyncRead + Unpin) -> Duration {
    let mut output = BufReader::new(output);
    let mut times = Vec::new();
    let mut line = String::new();
    for n in 0..3_000 {
        let begun = std::time::Instant::now();
        input
            .write_all(format!("{}\n", call(&n.to_string(), "echo")).as_bytes())
            .await
            .unwrap();
        line.clear();
        output.read_line(&mut line).await.unwrap();
        times.push(begun.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

fn python() -> tokio::process::Command {
    let mut command = tokio::process::Command::new("python3");
    command
        .args(["-u", "-c", ECHO])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs on its own thread, as a process of its own would, with pipes between.
fn on_a_thread<F: Future<Output = ()>>(
    body: impl FnOnce(Client) -> F + Send + 'static,
) -> (
    tokio::net::unix::pipe::Sender,
    tokio::net::unix::pipe::Receiver,
) {
    let (down_read, down_write) = rustix::pipe::pipe().unwrap();
    let (up_read, up_write) = rustix::pipe::pipe().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let input = tokio::net::unix::pipe::Receiver::from_owned_fd(down_read).unwrap();
            let output = tokio::net::unix::pipe::Sender::from_owned_fd(up_write).unwrap();
            body(Client {
                input: Box::new(input),
                output: Box::new(output),
            })
            .await;
        });
    });
    (
        tokio::net::unix::pipe::Sender::from_owned_fd(down_write).unwrap(),
        tokio::net::unix::pipe::Receiver::from_owned_fd(up_read).unwrap(),
    )
}

#[tokio::test]
#[ignore = "a measurement"]
async fn speed() {
    for round in 0..3 {
        let mut child = python().spawn().unwrap();
        let direct = measure(child.stdin.take().unwrap(), child.stdout.take().unwrap()).await;

        let (input, output) = on_a_thread(|mut client| async move {
            let mut child = python().spawn().unwrap();
            let (mut stdin, mut stdout) =
                (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let (mut down, mut up) = (vec![0_u8; 65_536], vec![0_u8; 65_536]);
            loop {
                use tokio::io::AsyncReadExt;
                tokio::select! {
                    read = client.input.read(&mut down) => match read { Ok(n) if n > 0 => stdin.write_all(&down[..n]).await.unwrap(), _ => return },
                    read = stdout.read(&mut up) => match read { Ok(n) if n > 0 => client.output.write_all(&up[..n]).await.unwrap(), _ => return },
                }
            }
        });
        let bare = measure(input, output).await;

        let (input, output) = on_a_thread(|client| async move {
            let spec = ChildSpec {
                name: "echo".to_owned(),
                command: "python3".to_owned(),
                arguments: vec!["-u".to_owned(), "-c".to_owned(), ECHO.to_owned()],
                cwd: None,
                environment: std::env::vars_os().collect(),
            };
            let diagnostics = Diagnostics::new("echo", None);
            let starter = ProcessStarter {
                spec: Arc::new(spec),
                guardian: None,
                diagnostics: diagnostics.clone(),
            };
            let gate = TestGate {
                permits: Semaphore::new(0),
                changes: watch::Sender::new(0),
                learnt: AtomicUsize::new(0),
                ends: Mutex::new(Vec::new()),
                beats: Arc::default(),
            };
            run(
                RelaySettings::new("echo"),
                client,
                Arc::new(starter),
                Arc::new(gate),
                diagnostics,
                std::future::pending(),
            )
            .await
            .unwrap();
        });
        let ours = measure(input, output).await;
        let over = ours.saturating_sub(bare);
        println!(
            "round {round}: direct {direct:?}, bare relay {bare:?}, relay {ours:?}, overhead {over:?}"
        );
    }
}
