// Command pebble-challtestsrv is a DNS server that resolves every name to this host. It
// accepts the flags of the original that the suites pass; they turn off all other servers.
package main

import (
	"flag"
	"log"
	"os"

	"github.com/letsencrypt/challtestsrv"
)

func main() {
	address := flag.String("dnsserver", ":8053", "Address to listen on.")
	for _, off := range []string{"defaultIPv6", "management", "doh", "http01", "tlsalpn01", "https01"} {
		flag.String(off, "", "Has no effect.")
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
