package agent_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/agent"
	"github.com/certplane/certplane/internal/agent/hook"
	"github.com/certplane/certplane/internal/agent/hostcert"
	"github.com/certplane/certplane/internal/agent/status"
	"github.com/certplane/certplane/internal/api/agenthost"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// edge is a host with certificates of a Signer, by the time of the machine.
type edge struct {
	*host
	signer string
	dir    string
	last   string // the last command and its output
}

// newEdge returns a host whose signer signs for 127.0.0.1. Its agent does not run yet.
func newEdge(t *testing.T, s *apitest.Server, certificates ...hostcert.Certificate) *edge {
	t.Helper()
	h := newHost(t, s)
	dir, err := os.MkdirTemp("", "edge")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL does not run as root
		t.Fatal(err)
	}
	e := &edge{host: h, signer: "example.com/" + h.namespace, dir: dir}
	h.declare(h.namespace, `{"generated": {}}`)
	e.add(certificates...)
	return e
}

// add adds certificates in folders of the host.
func (e *edge) add(certificates ...hostcert.Certificate) {
	for _, c := range certificates {
		c.Signer, c.Directory, c.Namespace, c.ServiceAccount = e.signer, filepath.Join(e.dir, c.Directory), e.namespace, ""
		e.cfg.Certificates = append(e.cfg.Certificates, c)
	}
}

// declare creates a Signer with a CA, which signs for 127.0.0.1.
func (h *host) declare(name, ca string) {
	h.t.Helper()
	h.post("/apis/certplane.dev/v1alpha1/signers", `{"apiVersion": "certplane.dev/v1alpha1", "kind": "Signer", "metadata": {"name": "`+name+`"},
		"spec": {"signerName": "example.com/`+name+`", "requests": ["PodCertificateRequest"], "ca": `+ca+`,
		"profile": {"names": {"ipAddresses": "['127.0.0.1']"}, "usages": ["digital signature", "server auth", "client auth"]}}}`)
}

func (h *host) post(path, body string) {
	h.t.Helper()
	if err := h.admin.CoreV1().RESTClient().Post().AbsPath(path).Body([]byte(body)).Do(h.t.Context()).Error(); err != nil {
		h.t.Fatal(err)
	}
}

// run runs the agent until the test ends.
func (e *edge) run() {
	e.t.Helper()
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&e.logs)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx, e.cfg, clock.RealClock{}, e.again, func() {}) }()
	e.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			e.t.Errorf("the agent ended: %v", err)
		}
	})
}

func (e *edge) read(path string) string {
	data, err := os.ReadFile(filepath.Join(e.dir, path))
	if err != nil && !os.IsNotExist(err) {
		e.t.Fatal(err)
	}
	return string(data)
}

// revoke revokes the certificate of a file, and returns it.
func (e *edge) revoke(path, reason string) *x509.Certificate {
	e.t.Helper()
	cert, err := pki.ParseFirst([]byte(e.read(path)))
	if err != nil {
		e.t.Fatal(err)
	}
	e.post("/apis/certplane.dev/v1alpha1/revocations", fmt.Sprintf(`{"apiVersion": "certplane.dev/v1alpha1", "kind": "Revocation", "metadata": {"name": "act-%s"},
		"spec": {"certificates": [{"fingerprint": "%x"}], "reason": "%s"}}`, uuid.NewUUID(), sha256.Sum256(cert.Raw), reason))
	return cert
}

// lists returns the lists in a file.
func (e *edge) lists(path string) []*x509.RevocationList {
	var lists []*x509.RevocationList
	for _, block := range blocksOf(e.read(path)) {
		list, err := x509.ParseRevocationList(block)
		if err != nil {
			e.t.Fatal(err)
		}
		lists = append(lists, list)
	}
	return lists
}

// names reports whether the first list of a file names a certificate.
func (e *edge) names(path string, cert *x509.Certificate) bool {
	lists := e.lists(path)
	return len(lists) > 0 && slices.ContainsFunc(lists[0].RevokedCertificateEntries, func(entry x509.RevocationListEntry) bool {
		return entry.SerialNumber.Cmp(cert.SerialNumber) == 0
	})
}

// source returns what the status says of a file with lists.
func (e *edge) source(path string) status.Source {
	told, err := status.Read(e.cfg.StatusFile())
	if err != nil {
		return status.Source{}
	}
	for _, pod := range told.Pods {
		for _, v := range pod.Volumes {
			for _, s := range v.Sources {
				if filepath.Join(v.Dir, s.Path) == filepath.Join(e.dir, path) {
					return s
				}
			}
		}
	}
	return status.Source{}
}

func blocksOf(text string) (ders [][]byte) {
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "X509 CRL" {
			ders = append(ders, block.Bytes)
		}
	}
	return ders
}

// program is a server that checks lists. It reports whether it accepts a client with the
// certificate and the key in two files.
type program func(cert, key string) bool

// Programs with the agent's files refuse a revoked client within seconds, and no other one. The
// agent replaces the revoked certificate by one with another key.
func TestPrograms(t *testing.T) {
	e := newEdge(t, apitest.Start(t))
	reload := func(pid string) []hook.Program {
		return []hook.Program{{Command: []string{"/bin/sh", "-c", "echo $CERTPLANE_CHANGE >>" + e.dir + "/changes; cd " + e.dir + "; [ ! -f " + pid + " ] || kill -HUP $(head -n 1 " + pid + ")"}}}
	}
	owner := databaseUser(t)
	nginx, postgres, etcd := e.recipe("nginx"), e.recipe("PostgreSQL"), e.recipe("etcd")
	nginx.AfterRefresh, postgres.AfterRefresh = reload("nginx.pid"), reload("data/postmaster.pid")
	nginx.Owner, postgres.Owner, etcd.Owner = "", "", ""
	if owner != nil {
		postgres.Owner = owner.Uid
	}
	e.add(nginx.Certificate, postgres.Certificate, etcd.Certificate, hostcert.Certificate{Directory: "good"}, hostcert.Certificate{Directory: "bad"})
	e.run()
	apitest.Eventually(t, "all files are there", func() bool {
		return !slices.ContainsFunc([]string{"nginx/crl.pem", "PostgreSQL/crl.pem", "etcd/crl.der", "good/tls.crt", "bad/tls.crt"}, func(path string) bool { return e.read(path) == "" })
	})
	if list, err := x509.ParseRevocationList([]byte(e.read("etcd/crl.der"))); err != nil || list.CheckSignatureFrom(e.root()) != nil {
		t.Errorf("crl.der: %v", err)
	}
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.WriteFile(filepath.Join(e.dir, "old-"+name), []byte(e.read("bad/"+name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	programs := map[string]program{"nginx": e.nginx(nginx.config), "PostgreSQL": e.postgres(postgres.config, owner), "etcd": e.etcd(etcd.config), "curl": e.curl()}
	accepts := func(name, pair string) bool {
		return programs[name](filepath.Join(e.dir, pair+"tls.crt"), filepath.Join(e.dir, pair+"tls.key"))
	}
	for name, program := range programs {
		if program == nil {
			delete(programs, name)
			continue
		}
		apitest.Eventually(t, name+" accepts both", func() bool { return accepts(name, "good/") && accepts(name, "old-") })
	}
	if strings.Contains(e.read("changes"), "list") {
		t.Errorf("changes before the revocation: %q", e.read("changes"))
	}
	watch := apitest.StartStopwatch(t)
	revoked := e.revoke("old-tls.crt", "KeyCompromise")
	apitest.Eventually(t, "both hooks run for the list", func() bool { return strings.Count(e.read("changes"), "list\n") == 2 })
	if took := watch.Elapsed(); took > 5*time.Second {
		t.Errorf("the hooks ran after %v", took)
	} else {
		t.Logf("the hooks ran after %v", took)
	}
	for name := range programs {
		apitest.Eventually(t, name+" refuses the revoked certificate", func() bool { return !accepts(name, "old-") })
		if took := watch.Elapsed(); took > 10*time.Second {
			t.Errorf("%s refuses it after %v", name, took)
		}
		// A program that is busy answers later, which is no refusal.
		apitest.Eventually(t, name+" accepts a certificate that is not revoked", func() bool { return accepts(name, "good/") })
	}
	if !e.names("nginx/crl.pem", revoked) {
		t.Error("the file does not name the certificate")
	}
	apitest.Eventually(t, "the revoked certificate is replaced", func() bool { return e.read("bad/tls.crt") != e.read("old-tls.crt") })
	if e.read("bad/tls.key") == e.read("old-tls.key") {
		t.Error("the key of the revoked certificate is used again")
	}
	for name := range programs {
		apitest.Eventually(t, name+" accepts the next one", func() bool { return accepts(name, "bad/") })
	}
}

// recipe is a recipe of docs/revocation.md, with the test's directory.
type recipe struct {
	hostcert.Certificate
	// config are the lines for the program's configuration.
	config string
}

func (e *edge) recipe(program string) recipe {
	e.t.Helper()
	page, err := os.ReadFile("../../docs/revocation.md")
	if err != nil {
		e.t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "### "+program+"\n")
	blocks := regexp.MustCompile("(?s)```(?:yaml)?\n(.*?)```").FindAllStringSubmatch(text, 2)
	if len(blocks) < 2 {
		e.t.Fatalf("the page has no recipe for %s", program)
	}
	r := recipe{Certificate: recipeOf(e.t, blocks[0][1])}
	r.config = strings.ReplaceAll(blocks[1][1], r.Directory, filepath.Join(e.dir, program))
	r.Directory = program
	return r
}

func (e *edge) root() *x509.Certificate {
	cert, err := pki.ParseFirst([]byte(e.read("nginx/ca.crt")))
	if err != nil {
		e.t.Fatal(err)
	}
	return cert
}

// start starts a program until the test ends.
func (e *edge) start(cmd *exec.Cmd) {
	e.t.Helper()
	out, err := os.Create(filepath.Join(e.dir, filepath.Base(cmd.Path)+".log"))
	if err != nil {
		e.t.Fatal(err)
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = e.dir, out, out
	if err := cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		if e.t.Failed() {
			e.t.Logf("%s\n", e.last)
			e.t.Logf("%s:\n%s", cmd.Path, e.read(filepath.Base(out.Name())))
		}
		_ = out.Close()
	})
}

// find returns the path of a program; empty if it is not installed.
func (e *edge) find(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		e.t.Logf("SKIPPED: %s is not installed", name)
	}
	return path
}

func (e *edge) port() string {
	_, port, err := net.SplitHostPort(apitest.FreeAddress(e.t))
	if err != nil {
		e.t.Fatal(err)
	}
	return port
}

// get reports whether curl gets a page with a client certificate, or with lists.
func (e *edge) get(curl, url string, args ...string) bool {
	args = append(args, "--silent", "--show-error", "--fail", "--output", os.DevNull, "--cacert", filepath.Join(e.dir, "nginx/ca.crt"), url)
	return e.succeeds(exec.CommandContext(e.t.Context(), curl, args...))
}

// succeeds reports whether a command succeeds. A failed test logs the output of the last one.
func (e *edge) succeeds(cmd *exec.Cmd) bool {
	out, err := cmd.CombinedOutput()
	e.last = fmt.Sprintf("%s: %v: %s", cmd, err, out)
	return err == nil
}

func (e *edge) nginx(lines string) program {
	nginx, curl := e.find("nginx"), e.find("curl")
	if nginx == "" || curl == "" {
		return nil
	}
	temporary := ""
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += name + "_temp_path temp;\n"
	}
	config := `pid nginx.pid;
daemon off;
error_log stderr;
events {}
http {
access_log off;
` + temporary + `
server {
  listen unix:` + e.dir + `/nginx.sock ssl;
` + lines + `
  location / { return 200; }
}
}
`
	if err := os.WriteFile(filepath.Join(e.dir, "nginx.conf"), []byte(config), 0o600); err != nil {
		e.t.Fatal(err)
	}
	e.start(exec.Command(nginx, "-p", e.dir, "-e", "stderr", "-c", filepath.Join(e.dir, "nginx.conf")))
	return func(cert, key string) bool {
		return e.get(curl, "https://127.0.0.1", "--unix-socket", filepath.Join(e.dir, "nginx.sock"), "--cert", cert, "--key", key)
	}
}

// curl checks the certificate of a server.
func (e *edge) curl() program {
	curl := e.find("curl")
	if curl == "" {
		return nil
	}
	return func(cert, key string) bool {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			e.t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
		server.StartTLS()
		defer server.Close()
		return e.get(curl, server.URL, "--crlfile", filepath.Join(e.dir, "nginx/crl.pem"))
	}
}

// databaseUser returns the user of PostgreSQL, which does not run as root; nil if the test does
// not either.
func databaseUser(t *testing.T) *user.User {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if found, err := user.Lookup(name); err == nil {
			return found
		}
	}
	t.Fatal("no user for PostgreSQL")
	return nil
}

func (e *edge) postgres(lines string, owner *user.User) program {
	postgres, initdb, psql := e.find("postgres"), e.find("initdb"), e.find("psql")
	if postgres == "" || initdb == "" || psql == "" {
		return nil
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		if cmd.Dir = e.dir; owner != nil {
			uid, _ := strconv.ParseUint(owner.Uid, 10, 32) // of the system's
			gid, _ := strconv.ParseUint(owner.Gid, 10, 32)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		}
		return cmd
	}
	data := filepath.Join(e.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		e.t.Fatal(err)
	}
	if owner != nil {
		if out, err := exec.Command("chown", owner.Uid, data).CombinedOutput(); err != nil {
			e.t.Fatalf("%s", out)
		}
	}
	if out, err := command(initdb, "--no-sync", "--auth=trust", "--username=tester", "--pgdata", data).CombinedOutput(); err != nil {
		e.t.Fatalf("initdb: %v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte("hostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n"), 0o644); err != nil {
		e.t.Fatal(err)
	}
	port := e.port()
	args := []string{"-D", data, "-p", port}
	for line := range strings.Lines("listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = off\nssl = on\n" + lines) {
		args = append(args, "-c", strings.NewReplacer(" = ", "=", "'", "").Replace(strings.TrimSpace(line)))
	}
	e.start(command(postgres, args...))
	return func(cert, key string) bool {
		return e.succeeds(exec.CommandContext(e.t.Context(), psql, "--command", "SELECT 1", fmt.Sprintf(
			"host=127.0.0.1 port=%s user=tester dbname=postgres sslmode=verify-ca sslrootcert=%s/nginx/ca.crt sslcrl=%s/nginx/crl.pem sslcert=%s sslkey=%s",
			port, e.dir, e.dir, cert, key)))
	}
}

func (e *edge) etcd(lines string) program {
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.UnsafeNoFsync = filepath.Join(e.dir, "etcd"), "error", true
	peers, clients := url.URL{Scheme: "http", Host: apitest.FreeAddress(e.t)}, url.URL{Scheme: "https", Host: apitest.FreeAddress(e.t)}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	cfg.AddFlags(flags)
	if err := flags.Parse(strings.Fields(lines)); err != nil {
		e.t.Fatal(err)
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(e.root())
	return func(cert, key string) bool {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			e.t.Fatal(err)
		}
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{clients.String()}, Logger: zap.NewNop(), TLS: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}})
		if err != nil {
			e.t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		ctx, cancel := context.WithTimeout(e.t.Context(), 2*time.Second)
		defer cancel()
		_, err = client.Get(ctx, "key")
		return err == nil
	}
}

// secret returns the Secret of a CA, whose certificate is signed by above; nil means itself.
func (s *signer) secret(name string, above *x509.Certificate, key, aboveKey crypto.Signer) *corev1.Secret {
	s.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(s.serial.Add(1)), Subject: pkix.Name{CommonName: name}, SubjectKeyId: []byte(name),
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	var chain []*x509.Certificate
	if above == nil {
		chain = append(chain, s.make(template, template, key.Public(), aboveKey))
	} else {
		chain = append(chain, s.make(template, above, key.Public(), aboveKey), above)
	}
	encoded, err := pki.EncodePrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: strings.ReplaceAll(name, " ", "-")}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		corev1.TLSCertKey: pki.EncodeCertificates(chain...), corev1.TLSPrivateKeyKey: encoded,
	}}
}

// If a CA above the signer's has no list, no lists are written: programs would refuse all
// certificates. When it has one, the file has both.
func TestIncompleteLists(t *testing.T) {
	h := newHost(t, common.Start(t))
	ca := newSigner(t)
	rootKey, key := apitest.NewKey(t), apitest.NewKey(t)
	name := h.namespace
	rootSecret := ca.secret(name+" root", nil, rootKey, rootKey)
	root, err := pki.ParseFirst(rootSecret.Data[corev1.TLSCertKey])
	if err != nil {
		t.Fatal(err)
	}
	declare := func(name string, secret *corev1.Secret) {
		t.Helper()
		if _, err := h.admin.CoreV1().Secrets(secret.Namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		h.declare(name, `{"secret": {"name": "`+secret.Name+`"}}`)
	}
	declare(name, ca.secret(name+" issuing", root, key, rootKey))
	h.cfg.Metrics.BindAddress = apitest.FreeAddress(t)
	signer := "example.com/" + name
	h.manifest("web.yaml", `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: `+name+`, annotations: {revocationlists.certplane.dev/tls: "`+signer+`=crl.pem"}}
spec: {volumes: [{name: tls, projected: {sources: [{clusterTrustBundle: {signerName: `+signer+`, labelSelector: {}, path: ca.pem}}]}}]}
`)
	h.run()
	h.eventually("the status says which list is missing", func() bool {
		return h.source(1).Error == "no list of CN="+name+" root: sign one with certplane crl sign"
	})
	if h.file("crl.pem") != "" || h.file("ca.pem") == "" {
		t.Error("an incomplete file was written, or the file of roots was not")
	}
	h.eventually("the Pod says so", func() bool {
		lists := agenthost.RevocationListsOf(h.pod().Status)
		return len(lists) == 1 && strings.HasPrefix(lists[0].Error, "no list of") && len(lists[0].Numbers) == 0
	})
	declare(name+"-root", rootSecret)
	h.eventually("the file is complete", func() bool { return h.file("crl.pem") != "" })
	var issuers []string
	for _, der := range blocksOf(h.file("crl.pem")) {
		list, err := x509.ParseRevocationList(der)
		if err != nil {
			t.Fatal(err)
		}
		issuers = append(issuers, list.Issuer.CommonName)
	}
	if want := []string{name + " issuing", name + " root"}; !slices.Equal(issuers, want) {
		t.Errorf("lists of %v, want %v", issuers, want)
	}
	h.eventually("the Pod shows the numbers", func() bool {
		lists := agenthost.RevocationListsOf(h.pod().Status)
		return len(lists) == 1 && lists[0].Error == "" && len(lists[0].Numbers) == 2 && lists[0].NextUpdate.After(time.Now())
	})
	body, _ := h.get("/metrics")
	for _, want := range []string{"next_update_seconds", "number"} {
		want = `certplane_agent_revocation_list_` + want + `{ca="CN=` + name + ` root",namespace="` + name + `",path="crl.pem",pod="web",volume="tls"} 1.`
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// While the server is away, the file stays. From half of its validity on that is a problem, and
// at its end an error. A list with a lower number than that in the file is refused.
func TestListsOfServerThatIsAway(t *testing.T) {
	s := apitest.Start(t)
	h := newHost(t, s)
	h.declare(h.namespace, `{"generated": {}}`)
	signer := "example.com/" + h.namespace
	h.manifest("web.yaml", `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: `+h.namespace+`, annotations: {revocationlists.certplane.dev/tls: "`+signer+`=crl.pem `+signer+`=crl.der,der"}}
spec: {volumes: [{name: tls, projected: {sources: [{clusterTrustBundle: {signerName: `+signer+`, labelSelector: {}, path: ca.pem}}]}}]}
`)
	h.run()
	h.eventually("the files are there", func() bool { return h.file("crl.pem") != "" && h.file("crl.der") != "" })
	content := h.file("crl.pem")
	if der := blocksOf(content); len(der) != 1 || string(der[0]) != h.file("crl.der") {
		t.Error("the files have different lists")
	}
	list, err := x509.ParseRevocationList([]byte(h.file("crl.der")))
	if err != nil {
		t.Fatal(err)
	}

	// Another program, or a server before it was restored, has written a later list.
	key := apitest.NewKey(t)
	forger := newSigner(t).make(&x509.Certificate{
		SerialNumber: big.NewInt(1), RawSubject: list.RawIssuer, SubjectKeyId: list.AuthorityKeyId, NotBefore: list.ThisUpdate, NotAfter: list.NextUpdate,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCRLSign,
	}, &x509.Certificate{RawSubject: list.RawIssuer}, key.Public(), key)
	later, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: new(big.Int).Add(list.Number, big.NewInt(1)), ThisUpdate: list.ThisUpdate, NextUpdate: list.NextUpdate,
	}, forger, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.path("crl.der"), later, 0o644); err != nil {
		t.Fatal(err)
	}
	h.eventually("the later list stays", func() bool {
		return strings.HasPrefix(h.source(2).Error, fmt.Sprintf("the server's list of CN=%s has the number %d, but the file has a later one, %d: ", signer, list.Number, list.Number.Int64()+1))
	})
	if h.file("crl.der") != string(later) {
		t.Error("the list with a lower number was written")
	}
	behind, err := filepath.EvalSymlinks(h.path("crl.der"))
	if err == nil {
		err = os.Remove(behind)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.eventually("the list is written again", func() bool { return h.file("crl.der") == string(list.Raw) && h.source(2).Error == "" })

	s.Stop(t)
	h.clock.SetTime(list.ThisUpdate.Add(84*time.Hour - time.Minute))
	h.passing(0, "the agent looks", func() bool {
		told, err := status.Read(h.cfg.StatusFile())
		return err == nil && told.Server.Error != ""
	})
	if told := h.source(1); strings.Contains(told.Error, "ends at") {
		t.Errorf("a problem before half of the validity: %s", told.Error)
	}
	end := list.NextUpdate.Format(time.RFC3339)
	h.eventually("half of the validity is a problem", func() bool {
		return strings.HasPrefix(h.source(1).Error, "the list of CN="+signer+" ends at "+end+", and a newer one has not come")
	})
	if h.file("crl.pem") != content || !h.source(1).Ready {
		t.Error("the file has gone")
	}
	h.clock.SetTime(list.NextUpdate)
	h.eventually("the end is an error", func() bool {
		return strings.HasPrefix(h.source(1).Error, "the list of CN="+signer+" ended at "+end+": programs that check it refuse all certificates of this CA")
	})
	if h.file("crl.pem") != content {
		t.Error("the file has gone")
	}
}

// A certificate that was revoked for a reason that does not ask for another one is not replaced.
func TestRevokedForGood(t *testing.T) {
	e := newEdge(t, common.Start(t), hostcert.Certificate{Directory: "web"})
	e.run()
	apitest.Eventually(t, "the certificate is there", func() bool { return e.read("web/tls.crt") != "" })
	before := e.read("web/tls.crt")
	e.revoke("web/tls.crt", "PrivilegeWithdrawn")
	apitest.Eventually(t, "the status says so", func() bool {
		told := e.source("web/tls.key")
		return strings.HasPrefix(told.Error, "the certificate with the serial number ") && strings.HasSuffix(told.Error, ": PrivilegeWithdrawn")
	})
	if e.read("web/tls.crt") != before || len(e.requests()) != 1 {
		t.Errorf("%d requests", len(e.requests()))
	}
	e.revoke("web/tls.crt", "KeyCompromise")
	apitest.Eventually(t, "a compromised key is replaced", func() bool { return e.read("web/tls.crt") != before })
}

// Actions learn which files are new. For several changes within five seconds they run once, with
// the last one.
func TestActionsOfLists(t *testing.T) {
	h := newHost(t, common.Start(t))
	h.declare(h.namespace, `{"generated": {}}`)
	signer, changes := "example.com/"+h.namespace, filepath.Join(t.TempDir(), "changes")
	h.manifest("web.yaml", `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: `+h.namespace+`, annotations: {revocationlists.certplane.dev/tls: "`+signer+`=crl.pem"}}
spec: {volumes: [{name: tls, projected: {sources: [{serviceAccountToken: {path: token, audience: vault}}]}}]}
`)
	h.cfg.AfterRefresh = []hook.Action{{Pod: h.namespace + "/web", Program: hook.Program{Command: []string{"/bin/sh", "-c", "echo $CERTPLANE_CHANGE >>" + changes}}}}
	has := func(want string) func() bool {
		return func() bool {
			data, err := os.ReadFile(changes)
			return err == nil && string(data) == want
		}
	}
	h.run()
	h.passing(0, "the first files", has("both\n"))
	for n := range 2 {
		former := h.file("crl.pem")
		list, err := x509.ParseRevocationList(blocksOf(former)[0])
		if err != nil {
			t.Fatal(err)
		}
		h.post("/apis/certplane.dev/v1alpha1/revocations", fmt.Sprintf(`{"apiVersion": "certplane.dev/v1alpha1", "kind": "Revocation", "metadata": {"name": "%s-%d"},
			"spec": {"certificates": [{"serialNumber": "%d", "authorityKeyID": "%x"}], "reason": "Superseded"}}`, h.namespace, n, n+1, list.AuthorityKeyId))
		h.passing(0, "another list", func() bool { return h.file("crl.pem") != former })
		if !has("both\n")() {
			t.Error("the action has run again within five seconds")
		}
	}
	h.passing(time.Second, "the action runs for the lists", has("both\nlist\n"))
	h.clock.Step(50 * time.Minute)
	h.passing(time.Second, "the action runs for the token", has("both\nlist\ncertificate\n"))
}
