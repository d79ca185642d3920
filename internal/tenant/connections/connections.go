// Package connections bounds how many network connections a server has open, in
// fair shares, and closes those whose clients read nothing.
package connections

import (
	"container/list"
	"crypto/tls"
	"maps"
	"net"
	"sync"
	"time"
)

// Config bounds the connections. 0 is no limit.
type Config struct {
	// Max is the maximum number of open connections. One more closes the oldest of the
	// holder with the most. Exempt connections are closed only if they are more than seven
	// eighths of Max: other connections need places, at least until their first request
	// identifies the user.
	Max int
	// MaxPerHolder is how many one holder may have. One more closes its oldest.
	MaxPerHolder int
	// Stall is how long a write of some KiB may take.
	Stall time.Duration
	// Closed is called for each connection that a bound has closed; it may be nil.
	Closed func(Holder)
}

// Holder is a client whose connections are counted together.
type Holder struct {
	// Class is Address until the user of a connection is known.
	Class string
	// Name is unique within the class.
	Name string
}

// Address is the class of holders that are known only by their address.
const Address = "address"

// Listener accepts connections. Each one is counted for its address until
// Assign sets its holder. It is safe for concurrent use.
type Listener struct {
	net.Listener
	cfg Config

	mu      sync.Mutex
	open    int
	holders map[Holder]*list.List // of *Conn, the oldest first
	byEnds  map[ends]*Conn
	byTLS   map[*tls.ConnectionState]*Conn // those whose state is known
}

// ends identify a connection.
type ends struct{ local, remote string }

// Listen bounds the connections of inner.
func Listen(inner net.Listener, cfg Config) *Listener {
	return &Listener{Listener: inner, cfg: cfg, holders: map[Holder]*list.List{}, byEnds: map[ends]*Conn{}, byTLS: map[*tls.ConnectionState]*Conn{}}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: inner, listener: l, ends: ends{inner.LocalAddr().String(), inner.RemoteAddr().String()}}
	l.mu.Lock()
	surplus := l.add(c, Holder{Class: Address, Name: host(c.ends.remote)})
	l.mu.Unlock()
	l.close(surplus)
	return c, nil
}

// Assign sets the holder of the connection between these addresses. The first
// holder stays.
func (l *Listener) Assign(local, remote string, holder Holder) {
	l.mu.Lock()
	var surplus *Conn
	if c := l.byEnds[ends{local, remote}]; c != nil && c.holder.Class == Address {
		l.remove(c)
		surplus = l.add(c, holder)
	}
	l.mu.Unlock()
	l.close(surplus)
}

// SetTLS notes the state of TLS on the connection between these addresses, for CloseWhere.
// All requests of a connection have the same state, so that it costs little for all but the
// first one.
func (l *Listener) SetTLS(local net.Addr, remote string, state *tls.ConnectionState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.byTLS[state]; known {
		return
	}
	if c := l.byEnds[ends{local.String(), remote}]; c != nil && c.tls == nil {
		c.tls, l.byTLS[state] = state, c
	}
}

// CloseWhere closes the connections for whose state of TLS matches is true, with all requests
// on them, and returns how many those are. Connections without a state stay.
func (l *Listener) CloseWhere(matches func(*tls.ConnectionState) bool) (closed int) {
	l.mu.Lock()
	known := maps.Clone(l.byTLS)
	l.mu.Unlock()
	for state, c := range known {
		if matches(state) {
			closed++
			_ = c.Close() // there is no caller to report an error to
		}
	}
	return closed
}

// Exempt is the holder of connections to which MaxPerHolder does not apply.
var Exempt = Holder{Class: "exempt"}

// add adds a connection and returns the one that must be closed for it, or nil.
// The caller holds mu.
func (l *Listener) add(c *Conn, holder Holder) *Conn {
	held := l.holders[holder]
	if held == nil {
		held = list.New()
		l.holders[holder] = held
	}
	c.holder, c.place = holder, held.PushBack(c)
	l.byEnds[c.ends] = c
	if c.tls != nil {
		l.byTLS[c.tls] = c
	}
	l.open++
	if holder != Exempt && l.cfg.MaxPerHolder > 0 && held.Len() > l.cfg.MaxPerHolder {
		return oldest(held)
	}
	if l.cfg.Max > 0 && l.open > l.cfg.Max {
		return l.oldestOfLargest()
	}
	return nil
}

func (l *Listener) oldestOfLargest() *Conn {
	if exempt := l.holders[Exempt]; exempt != nil && exempt.Len() > l.cfg.Max-max(l.cfg.Max/8, 1) {
		return oldest(exempt)
	}
	var largest *list.List
	for holder, held := range l.holders {
		if holder != Exempt && (largest == nil || held.Len() > largest.Len()) {
			largest = held
		}
	}
	if largest == nil {
		return nil
	}
	return oldest(largest)
}

func oldest(held *list.List) *Conn { return held.Front().Value.(*Conn) }

// remove stops counting c. The caller holds mu.
func (l *Listener) remove(c *Conn) {
	if c.place == nil {
		return
	}
	held := l.holders[c.holder]
	held.Remove(c.place)
	if held.Len() == 0 {
		delete(l.holders, c.holder)
	}
	delete(l.byEnds, c.ends)
	delete(l.byTLS, c.tls)
	c.place = nil
	l.open--
}

func (l *Listener) close(c *Conn) {
	if c == nil {
		return
	}
	l.mu.Lock()
	holder := c.holder
	l.mu.Unlock()
	if l.cfg.Closed != nil {
		l.cfg.Closed(holder)
	}
	_ = c.Close() // there is no caller to report an error to
}

func host(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// Conn is a connection that is counted until it is closed.
type Conn struct {
	net.Conn
	listener *Listener
	ends     ends
	holder   Holder               // listener.mu guards it
	place    *list.Element        // nil when it is not counted; listener.mu guards it
	tls      *tls.ConnectionState // nil until it is known; listener.mu guards it

	mu       sync.Mutex // guards the deadline, not the writing
	deadline time.Time  // as the user of the connection has set it
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// Write implements net.Conn. It fails when the other side reads nothing.
func (c *Conn) Write(data []byte) (int, error) {
	if stall := c.listener.cfg.Stall; stall > 0 {
		if err := c.limit(time.Now().Add(stall)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(data)
}

func (c *Conn) limit(until time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.deadline.IsZero() && c.deadline.Before(until) {
		until = c.deadline
	}
	return c.Conn.SetWriteDeadline(until)
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = deadline
	return c.Conn.SetWriteDeadline(deadline)
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(deadline time.Time) error {
	if err := c.SetReadDeadline(deadline); err != nil {
		return err
	}
	return c.SetWriteDeadline(deadline)
}
