package connections

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// pair is a connection from both sides.
type pair struct{ client, server net.Conn }

// closed reports whether the server has closed the connection.
func (p pair) closed(t *testing.T) bool {
	t.Helper()
	if err := p.client.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := p.client.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

func listen(t *testing.T, cfg Config) (l *Listener, connect func() pair) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inner.Close() })
	l = Listen(inner, cfg)
	return l, func() pair {
		t.Helper()
		client, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		return pair{client, server}
	}
}

func (l *Listener) assign(p pair, holder Holder) {
	l.Assign(p.server.LocalAddr().String(), p.server.RemoteAddr().String(), holder)
}

func TestOldestOfLargestGoes(t *testing.T) {
	var told []Holder
	l, connect := listen(t, Config{Max: 4, Closed: func(h Holder) { told = append(told, h) }})
	alice, bob := Holder{"user", "alice"}, Holder{"user", "bob"}
	admin, a1, a2, b1 := connect(), connect(), connect(), connect()
	l.assign(admin, Exempt)
	l.assign(a1, alice)
	l.assign(a2, alice)
	l.assign(b1, bob)
	l.assign(b1, alice) // the first holder stays
	stranger := connect()
	if !a1.closed(t) {
		t.Error("the oldest of the largest holder stays")
	}
	for name, p := range map[string]pair{"admin": admin, "a2": a2, "b1": b1, "stranger": stranger} {
		if p.closed(t) {
			t.Errorf("%s is closed", name)
		}
	}
	if len(told) != 1 || told[0] != alice {
		t.Errorf("told of %v", told)
	}
}

// However many connections administrators have, others get in: their health checks do not
// become exempt before their first request.
func TestExemptLeavePlaces(t *testing.T) {
	l, connect := listen(t, Config{Max: 16})
	var admins []pair
	for range 20 {
		p := connect()
		l.assign(p, Exempt)
		admins = append(admins, p)
	}
	strangers := []pair{connect(), connect()}
	for i, p := range strangers {
		if p.closed(t) {
			t.Errorf("stranger %d is closed", i)
		}
	}
	for i, p := range admins {
		if oldest := i < 6; p.closed(t) != oldest {
			t.Errorf("connection %d of the administrators is closed: %t", i, !oldest)
		}
	}
	third := connect()
	if !strangers[0].closed(t) || third.closed(t) || admins[6].closed(t) {
		t.Error("strangers in their own places do not take turns")
	}
}

func TestBoundOfOneHolder(t *testing.T) {
	l, connect := listen(t, Config{MaxPerHolder: 2})
	alice := Holder{"user", "alice"}
	a1, a2 := connect(), connect()
	l.assign(a1, alice)
	l.assign(a2, alice)
	s1, s2 := connect(), connect() // of their address
	if a1.closed(t) || a2.closed(t) || s1.closed(t) {
		t.Error("one within the bound is closed")
	}
	connect()
	if !s1.closed(t) || s2.closed(t) {
		t.Error("the oldest of the address was to go")
	}
	l.assign(s2, alice)
	if !a1.closed(t) {
		t.Error("the oldest of alice was to go")
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	l, connect := listen(t, Config{Max: 1})
	first := connect()
	first.server.Close()
	l.assign(first, Holder{"user", "alice"}) // too late
	first.server.Close()
	second := connect()
	second.server.Close()
	if l.open != 0 || len(l.holders) != 0 || len(l.byEnds) != 0 {
		t.Errorf("left behind: %d, %v, %v", l.open, l.holders, l.byEnds)
	}
}

// A client that reads nothing holds up a write for a limited time only;
// deadlines of the server still apply.
func TestStalledWrite(t *testing.T) {
	_, connect := listen(t, Config{Stall: 50 * time.Millisecond})
	p := connect()
	var err error
	for err == nil {
		_, err = p.server.Write(make([]byte, 1<<20))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the write ended with %v", err)
	}

	q := connect()
	if err := q.server.SetWriteDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := q.server.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write after its deadline: %v", err)
	}
	if err := q.server.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.server.Write([]byte("x")); err != nil {
		t.Errorf("a write without a deadline: %v", err)
	}
	if _, err := io.ReadFull(q.client, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

func TestCloseWhere(t *testing.T) {
	l, connect := listen(t, Config{})
	states := map[string]*tls.ConnectionState{"a": {ServerName: "a"}, "b": {ServerName: "b"}}
	a, b, plain := connect(), connect(), connect()
	for range 2 { // with each request
		l.SetTLS(a.server.LocalAddr(), a.server.RemoteAddr().String(), states["a"])
		l.SetTLS(b.server.LocalAddr(), b.server.RemoteAddr().String(), states["b"])
	}
	l.assign(a, Holder{"user", "alice"}) // it is the same connection, still
	if n := l.CloseWhere(func(state *tls.ConnectionState) bool { return state.ServerName == "a" }); n != 1 {
		t.Errorf("closed %d connections", n)
	}
	if !a.closed(t) || b.closed(t) || plain.closed(t) {
		t.Errorf("closed: %v, %v, %v", a.closed(t), b.closed(t), plain.closed(t))
	}
	b.server.Close()
	l.SetTLS(b.server.LocalAddr(), b.server.RemoteAddr().String(), states["b"]) // a request that is still handled
	if n := len(l.byTLS); n != 0 {
		t.Errorf("%d closed connections are remembered", n)
	}
}
