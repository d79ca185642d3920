// Command pebble stands in for Pebble's, with the options and the part of its
// configuration that suites use.
package main

import (
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"os"

	"github.com/letsencrypt/pebble/v2/standin"
)

type configuration struct {
	Pebble struct {
		ListenAddress, ManagementListenAddress, Certificate, PrivateKey string
		HTTPPort, TLSPort                                               int
		Profiles                                                        map[string]struct {
			Description    string
			ValidityPeriod uint64
		}
	}
}

func main() {
	file := flag.String("config", "", "The configuration, as JSON.")
	resolver := flag.String("dnsserver", "", "The DNS server, as HOST:PORT.")
	flag.Bool("strict", false, "Changes nothing.")
	flag.Parse()
	text, err := os.ReadFile(*file)
	if err != nil {
		log.Fatal(err)
	}
	var of configuration
	if err := json.Unmarshal(text, &of); err != nil {
		log.Fatal(err)
	}
	server := &standin.Server{HTTPPort: of.Pebble.HTTPPort, TLSPort: of.Pebble.TLSPort, Resolver: *resolver, Profiles: map[string]standin.Profile{}}
	for name, profile := range of.Pebble.Profiles {
		server.Profiles[name] = standin.Profile{Description: profile.Description, Seconds: profile.ValidityPeriod}
	}
	management := http.NewServeMux()
	management.HandleFunc("/roots/0", func(w http.ResponseWriter, _ *http.Request) {
		roots, err := server.Roots()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, roots)
	})
	ended := make(chan error)
	serve := func(address string, handler http.Handler) {
		ended <- http.ListenAndServeTLS(address, of.Pebble.Certificate, of.Pebble.PrivateKey, handler)
	}
	go serve(of.Pebble.ManagementListenAddress, management)
	go serve(of.Pebble.ListenAddress, server)
	log.Fatal(<-ended)
}
