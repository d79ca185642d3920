// Package connections bounds how many network connections a server has open, in
// fair shares, and ends those that take nothing.
package connections

import (
	"container/list"
	"net"
	"sync"
	"time"
)

// Config bounds the connections. 0 is no limit.
type Config struct {
	// Max is how many there are. One more closes the oldest of the holder that
	// has the most.
	Max int
	// MaxPerHolder is how many one holder has. One more closes its oldest.
	MaxPerHolder int
	// Stall is for how long a write may take, which is of some KiB.
	Stall time.Duration
	// Closed is told of each connection that a bound has closed; nil if nobody
	// is to know.
	Closed func(Holder)
}

// Holder is whose connections are counted together.
type Holder struct {
	// Class is Address until somebody is known to be behind a connection.
	Class string
	// Name is unique within the class.
	Name string
}

// Address is the class of the holders of which only the address is known.
const Address = "address"

// Listener accepts connections. Each one belongs to its address until Assign
// says whose it is. It is safe for concurrent use.
type Listener struct {
	net.Listener
	cfg Config

	mu      sync.Mutex
	open    int
	holders map[Holder]*list.List // of *Conn, the oldest first
	byEnds  map[ends]*Conn
}

// ends identify a connection.
type ends struct{ local, remote string }

// Listen bounds the connections of inner.
func Listen(inner net.Listener, cfg Config) *Listener {
	return &Listener{Listener: inner, cfg: cfg, holders: map[Holder]*list.List{}, byEnds: map[ends]*Conn{}}
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

// Assign says who is behind the connection between these addresses. Who came
// first stays. A connection that is Exempt belongs to nobody and is never closed.
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

// Exempt is the holder whose connections are never closed.
var Exempt = Holder{Class: "exempt"}

// add adds a connection and returns the one that has to go for it, or nil. The
// caller holds mu.
func (l *Listener) add(c *Conn, holder Holder) *Conn {
	held := l.holders[holder]
	if held == nil {
		held = list.New()
		l.holders[holder] = held
	}
	c.holder, c.place = holder, held.PushBack(c)
	l.byEnds[c.ends] = c
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

// remove takes c out. The caller holds mu.
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
	_ = c.Close() // nobody is there to be told
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
	holder   Holder        // listener.mu guards it
	place    *list.Element // nil when it is not counted; listener.mu guards it

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

// Write implements net.Conn. It fails when the other side takes nothing.
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
