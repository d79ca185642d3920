// Command pebble-challtestsrv is a DNS server by which every name is this host. It has
// the options that suites use, of which they turn off all but that.
package main

import (
	"flag"
	"log"
	"os"

	"github.com/letsencrypt/challtestsrv"
)

func main() {
	address := flag.String("dnsserver", ":8053", "Where it listens.")
	for _, off := range []string{"defaultIPv6", "management", "doh", "http01", "tlsalpn01", "https01"} {
		flag.String(off, "", "Changes nothing.")
	}
	flag.Parse()
	server, err := challtestsrv.New(challtestsrv.Config{DNSAddrs: []string{*address}, Log: log.New(os.Stderr, "", 0)})
	if err != nil {
		log.Fatal(err)
	}
	server.SetDefaultDNSIPv4("127.0.0.1")
	server.SetDefaultDNSIPv6("")
	server.Run()
	select {}
}
