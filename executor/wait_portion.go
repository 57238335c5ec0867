package executor

import "time"

// One write can answer every client that waits at a key and only reads it (XREAD BLOCK): a
// megabyte, times a thousand clients. So the batch of the writer makes only a portion of such
// replies. A goroutine makes the others after the commit, some at a time, while clients
// hold no more memory than they may. Clients that consume what they wait for (BLPOP) are
// served in the writer's batch and in the order of their arrival: they cannot get more than
// what was written.

const (
	// portion is how many bytes of replies a batch makes for waiters that only read.
	portion = 4 << 20
	// roomWait is how long a reply waits until clients have read others. Clients that do not
	// read are evicted by the server, and must not delay the replies of others.
	roomWait = 20 * time.Millisecond
)

// awaitRoom waits until clients hold an eighth less memory than they may, roomWait at most.
func (x *Executor) awaitRoom() {
	for begin := time.Now(); !x.room() && time.Since(begin) < roomWait; {
		time.Sleep(time.Millisecond)
	}
}

func (x *Executor) room() bool {
	if x.clients == nil {
		return true
	}
	limit := x.clients.Limit()
	return limit == 0 || x.clients.Used() < limit-limit/8
}

// charge counts the reply as held by clients until Release or Cancel.
func (w *Waiter) charge() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.x.clients != nil && !w.canceled {
		w.charged = int64(cap(w.call.Reply.Buf))
		w.x.clients.Add(w.charged)
	}
}

// Release drops the reply and its charge: the connection holds and accounts for it now.
func (w *Waiter) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release()
}

// release is Release with mu held. The waiter itself may stay in a list of waiters that are
// being served.
func (w *Waiter) release() {
	if w.charged != 0 { // else a batch may still write the reply
		w.x.clients.Add(-w.charged)
		w.charged, w.call.Reply.Buf = 0, nil
	}
}
