package linklocal_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/process/linklocal"
)

func TestContains(t *testing.T) {
	for address, want := range map[string]bool{
		"169.254.169.254": true, "::ffff:169.254.169.254": true, "::169.254.169.254": true, "64:ff9b::a9fe:a9fe": true, "64:ff9b:1::a9fe:a9fe": true, "64:ff9b:1:a9fe:a9:fe00::": true, "2002:a9fe:a9fe::1": true,
		"2001:db8::5efe:a9fe:a9fe": true, "2001:db8::200:5efe:169.254.169.254": true, "2001:0:a00:1:0:0:5601:5601": true, "2001:db8::5eff:a9fe:a9fe": false, "2001:0:a00:1:0:0:a9fe:a9fe": false,
		"fe80::1%eth0": true, "ff02::1": true, "224.0.0.1": true, "fd00:ec2::254": true, "100.100.100.200": true, "168.63.129.16": true,
		"127.0.0.1": false, "::1": false, "10.0.0.1": false, "100.100.100.201": false, "2001:db8::1": false, "fd00::1": false,
	} {
		if got := linklocal.Contains(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}

func TestGuard(t *testing.T) {
	const refused = "169.254.169.254 is a link-local or metadata address, which no issuer may use"
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason string
		proxy  *url.URL
		url    string
		err    string // empty: the server answers
	}{
		{reason: "loopback", url: server.URL},
		{reason: "metadata", url: "http://169.254.169.254/", err: refused},
		{reason: "metadata in disguise", url: "http://[::ffff:169.254.169.254]/", err: refused},
		{reason: "another host, by way of a proxy", proxy: at, url: "http://ca.example.com/"},
		{reason: "metadata, by way of a proxy", proxy: at, url: "http://169.254.169.254/", err: refused},
	}
	for _, tc := range tests {
		transport := &http.Transport{Proxy: http.ProxyURL(tc.proxy)}
		linklocal.Guard(transport)
		response, err := (&http.Client{Transport: transport}).Get(tc.url)
		if err == nil {
			_ = response.Body.Close()
		}
		if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.HasSuffix(err.Error(), tc.err)) {
			t.Errorf("%s: error %v, want %q", tc.reason, err, tc.err)
		}
		transport.CloseIdleConnections()
	}
}
