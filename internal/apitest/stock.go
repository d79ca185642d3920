package apitest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/process/buildinfo"
)

// Stock returns the administrator's configuration for a server in front of s that serves the
// kinds of a kube-apiserver with its default APIs: CertificateSigningRequests, but neither
// the newer kinds of certificates.k8s.io nor any kind of certplane or cert-manager. It
// answers requests for other kinds like any API server.
func (s *Server) Stock(t testing.TB) *rest.Config {
	t.Helper()
	admin := s.Admin(t)
	target, err := url.Parse(admin.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(admin)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.URL.Path, r.Out.URL.RawPath = stockPath(r.In.URL.Path), ""
			if isDiscovery(r.In.URL.Path) {
				r.Out.Header.Set("Accept", "application/json") // no document of all groups
				r.Out.Header.Del("Accept-Encoding")
			}
		},
		ModifyResponse: stockDiscovery,
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(func() { // a watch ends only when its connection is closed
		front.CloseClientConnections()
		front.Close()
	})
	return &rest.Config{Host: front.URL}
}

// stockGroups are the suffixes of the groups that such a server does not serve.
var stockGroups = []string{"certplane.dev", "cert-manager.io"}

func isStockGroup(group string) bool {
	return !slices.ContainsFunc(stockGroups, func(end string) bool { return group == end || strings.HasSuffix(group, "."+end) })
}

const (
	stockGroup   = "certificates.k8s.io"
	stockVersion = "v1"
	stockKind    = "certificatesigningrequests"
)

// stockPath returns the path for one of an API, and for one that is not served another
// that is not served either.
func stockPath(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) < 2 || parts[0] != "apis" {
		return path
	}
	group := parts[1]
	switch {
	case !isStockGroup(group):
		return "/apis/none.example.com/v1/nothing"
	case group != stockGroup || len(parts) == 2:
		return path
	case parts[2] != stockVersion:
		return "/apis/" + stockGroup + "/v0/nothing"
	case len(parts) > 3 && parts[3] != stockKind && parts[3] != "watch":
		return "/apis/" + stockGroup + "/" + stockVersion + "/nothing"
	}
	return path
}

func isDiscovery(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	return parts[0] == "apis" && len(parts) <= 3 || path == "/api"
}

// stockDiscovery removes kinds that are not served from the documents of discovery.
func stockDiscovery(response *http.Response) error {
	path := response.Request.URL.Path
	if path == "/version" {
		return rewrite(response, func(info *version.Info) {
			info.GitVersion = strings.TrimSuffix(info.GitVersion, buildinfo.VersionSuffix)
		})
	}
	if response.StatusCode != http.StatusOK || !isDiscovery(path) {
		return nil
	}
	switch strings.Trim(path, "/") {
	case "apis":
		return rewrite(response, func(all *metav1.APIGroupList) {
			all.Groups = slices.DeleteFunc(all.Groups, func(g metav1.APIGroup) bool { return !isStockGroup(g.Name) })
			for i := range all.Groups {
				stockVersions(&all.Groups[i])
			}
		})
	case "apis/" + stockGroup:
		return rewrite(response, stockVersions)
	case "apis/" + stockGroup + "/" + stockVersion:
		return rewrite(response, func(all *metav1.APIResourceList) {
			all.APIResources = slices.DeleteFunc(all.APIResources, func(r metav1.APIResource) bool { return !strings.HasPrefix(r.Name, stockKind) })
		})
	}
	return nil
}

func stockVersions(group *metav1.APIGroup) {
	if group.Name != stockGroup {
		return
	}
	group.Versions = slices.DeleteFunc(group.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.Version != stockVersion })
	group.PreferredVersion = group.Versions[0]
}

func rewrite[T any](response *http.Response, change func(*T)) error {
	var document T
	if err := json.NewDecoder(response.Body).Decode(&document); err != nil {
		return err
	}
	response.Body.Close()
	change(&document)
	data, err := json.Marshal(document)
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(data))
	response.ContentLength = int64(len(data))
	response.Header.Set("Content-Length", strconv.Itoa(len(data)))
	return nil
}
