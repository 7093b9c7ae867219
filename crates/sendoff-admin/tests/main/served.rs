//! Routes that are being served.

use sendoff_admin::{Admin, Bearer};
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::PublishStore;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Client, TOKEN};

pub(crate) struct Served {
    pub(crate) client: Client,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

pub(crate) fn token() -> Bearer {
    Bearer::new(TOKEN).unwrap()
}

impl Served {
    pub(crate) async fn new<S: PublishStore>(journal: &Journal<S>) -> Self {
        Self::by(Admin::new(journal).token(token())).await
    }

    pub(crate) async fn by(admin: Admin) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            admin.serve(listener, stopped).await.unwrap();
        });
        Self { client, stop, task }
    }

    pub(crate) async fn close(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }
}
