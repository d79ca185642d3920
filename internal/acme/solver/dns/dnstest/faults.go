package dnstest

import "github.com/miekg/dns"

// Rcode answers with an error code.
func Rcode(code int) Fault {
	return func(w dns.ResponseWriter, query *dns.Msg) bool {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(query, code))
		return true
	}
}

// Silent never answers.
func Silent(dns.ResponseWriter, *dns.Msg) bool { return true }

// SilentOverUDP answers over TCP only.
func SilentOverUDP(w dns.ResponseWriter, _ *dns.Msg) bool { return overUDP(w) }

// TruncatedOverUDP answers over UDP with no records and the bit TC.
func TruncatedOverUDP(w dns.ResponseWriter, query *dns.Msg) bool {
	if !overUDP(w) {
		return false
	}
	reply := new(dns.Msg).SetReply(query)
	reply.Truncated = true
	_ = w.WriteMsg(reply)
	return true
}

// Raw answers with data, unchanged.
func Raw(data []byte) Fault {
	return func(w dns.ResponseWriter, _ *dns.Msg) bool {
		_, _ = w.Write(data)
		return true
	}
}

// Reply answers with an empty reply after change has modified it.
func Reply(change func(reply *dns.Msg)) Fault {
	return func(w dns.ResponseWriter, query *dns.Msg) bool {
		reply := new(dns.Msg).SetReply(query)
		change(reply)
		_ = w.WriteMsg(reply)
		return true
	}
}

func overUDP(w dns.ResponseWriter) bool { return w.LocalAddr().Network() == "udp" }
