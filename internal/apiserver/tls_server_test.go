package apiserver_test

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

func TestTLS(t *testing.T) {
	byDefault := apitest.Start(t)
	strict := apitest.Start(t, func(c *server.Config) { c.Serving.TLS.MinVersion = "VersionTLS13" })
	tests := []struct {
		reason string
		server *apitest.Server
		client *tls.Config
		want   bool
	}{
		{"today's clients", byDefault, &tls.Config{}, true},
		{"TLS 1.2 is spoken", byDefault, &tls.Config{MaxVersion: tls.VersionTLS12}, true},
		{"TLS 1.1 is not", byDefault, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, false},
		{"no suite without authenticated encryption", byDefault, &tls.Config{
			MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA},
		}, false},
		{"the configured version is spoken", strict, &tls.Config{}, true},
		{"an older one than configured is not", strict, &tls.Config{MaxVersion: tls.VersionTLS12}, false},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			tt.client.InsecureSkipVerify = true // not tested here
			conn, err := tls.Dial("tcp", strings.TrimPrefix(tt.server.URL, "https://"), tt.client)
			if err == nil {
				conn.Close()
			}
			if (err == nil) != tt.want {
				t.Errorf("connecting: %v", err)
			}
		})
	}
}

func TestTLSConfigValidate(t *testing.T) {
	tests := []struct {
		reason  string
		change  func(*apiserver.TLSConfig)
		wantErr string
	}{
		{"the default holds", func(*apiserver.TLSConfig) {}, ""},
		{"older than 1.2", func(c *apiserver.TLSConfig) { c.MinVersion = "VersionTLS11" }, "serving.tls.minVersion"},
		{"no version", func(c *apiserver.TLSConfig) { c.MinVersion = "" }, "serving.tls.minVersion"},
		{"unknown suite", func(c *apiserver.TLSConfig) { c.CipherSuites = []string{"ROT13"} }, "serving.tls.cipherSuites"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			cfg := apiserver.DefaultTLSConfig()
			tt.change(&cfg)
			err := cfg.Validate()
			if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got %v, want it to name %q", err, tt.wantErr)
			}
		})
	}
}
