package hostile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/token"
	"github.com/certplane/certplane/internal/process/gcpace"
	"github.com/certplane/certplane/internal/run/server"
	"github.com/certplane/certplane/internal/store/datadir"
)

const (
	// serveEnv makes the test binary a server on the data directory it names.
	serveEnv = "CERTPLANE_HOSTILE_TEST_SERVE"
	// patience bounds each wait for a server.
	patience = 3 * time.Minute
	// storeMiB is the size of the store, which attackers try to fill.
	storeMiB = 128
	// team is the namespace of the editor.
	team = "team-a"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveEnv); dir != "" {
		os.Exit(serve(dir))
	}
	os.Exit(m.Run())
}

// config is the default one, except for bounds that would take long to reach.
func config(dir, acme string) server.Config {
	cfg := server.DefaultConfig()
	cfg.DataDir, cfg.Serving.Listen = dir, "127.0.0.1:0"
	cfg.ACMEServer.Listen, cfg.ACMEServer.ExternalURL = acme, "https://"+acme
	cfg.Etcd.QuotaMiB, cfg.Etcd.MaxPercentPerTenant = storeMiB, 40
	cfg.API.Limits.MaxConnections, cfg.API.Limits.MaxConnectionsPerTenant = 300, 150
	return cfg
}

func serve(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	started := make(chan struct{})
	go gcpace.Run(ctx, started) // as the program does
	if err := server.Run(ctx, config(dir, os.Getenv(acmeEnv)), func(ready server.Ready) {
		close(started)
		fmt.Println(ready.URL)
	}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// world is a server with all attackers and observers.
type world struct {
	*apitest.Server
	admin kubernetes.Interface
	pid   int
	// attackers are the clients of the attackers, by name.
	attackers map[string]*rest.Config
	// viewer reads and requests certificates, node is a node.
	viewer, node *rest.Config
	// acme is how ACME clients reach the server.
	acme *rest.Config
}

// start runs a server in a separate process.
func start(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process, acme := exec.Command(executable), apitest.FreeAddress(t)
	process.Env = append(os.Environ(), serveEnv+"="+dir, acmeEnv+"="+acme)
	stdout, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	timer := time.AfterFunc(patience, func() { _ = process.Process.Kill() })
	defer timer.Stop()
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the server did not get ready: %v", errors.Join(err, process.Wait()))
	}
	w := &world{Server: &apitest.Server{Config: config(dir, acme), URL: strings.TrimSpace(url), Kubeconfig: datadir.Dir(dir).AdminKubeconfig()}, pid: process.Process.Pid}
	w.admin = apitest.Client(t, w.Admin(t))
	w.populate(t)
	return w
}

// populate creates everything that attackers and observers need.
func (w *world) populate(t *testing.T) {
	t.Helper()
	apitest.NewNamespace(t, w.admin, team)
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "edit"},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "editor"}},
	}
	if _, err := w.admin.RbacV1().RoleBindings(team).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"edge-1", "edge-9"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := w.admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	busy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "busy"}}
	if _, err := w.admin.CoreV1().ConfigMaps(team).Create(t.Context(), busy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "edge-9"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("edge-9"), LeaseDurationSeconds: ptr.To[int32](40)},
	}
	if _, err := w.admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.makeIssuer(t)
	w.Grant(t, "viewer", apitest.Allow("get list create", "certificatesigningrequests"))
	w.viewer = w.Login(t, "viewer")
	w.node = w.Login(t, "system:node:edge-1", "system:nodes")

	w.attackers = map[string]*rest.Config{
		anonymous: w.Anonymous(t),
		nobody:    w.Login(t, "nobody"),
		node:      w.Login(t, "system:node:edge-9", "system:nodes"),
		editor:    w.Login(t, "editor"),
	}
	w.acme = w.makeEndpoint(t)
	w.attackers[acmeClient] = rest.CopyConfig(w.acme)
	for _, cfg := range w.attackers {
		cfg.Dial = elsewhere
	}
}

// newToken returns the credentials of a new bootstrap token that the server has stored.
// All nodes that join with one token are one tenant, so with the same token, nodes of an
// earlier attack would delay the nodes of the next.
func (w *world) newToken(t *testing.T) *rest.Config {
	t.Helper()
	secret, err := token.Create(t.Context(), w.admin.CoreV1().Secrets(metav1.NamespaceSystem), token.Options{TTL: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	joining := w.Anonymous(t)
	joining.BearerToken = secret
	as := apitest.Client(t, joining).AuthenticationV1().SelfSubjectReviews()
	apitest.Eventually(t, "the server knows the token", func() bool {
		_, err := as.Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return err == nil
	})
	return joining
}

// elsewhere dials from another address than the observers', if there is one.
func elsewhere(ctx context.Context, network, address string) (net.Conn, error) {
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	conn, err := from.DialContext(ctx, network, address)
	if err != nil && errors.Is(err, syscall.EADDRNOTAVAIL) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return conn, err
}

// memory returns the server's own memory, in MiB, or 0 where the system does
// not report it. The kernel can reclaim pages of files, such as its database.
func (w *world) memory() int {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(w.pid) + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "RssAnon:"); found {
			kib, _ := strconv.Atoi(strings.Fields(value)[0])
			return kib >> 10
		}
	}
	return 0
}

// client opens a new connection for each request if fresh is set.
func client(cfg *rest.Config, fresh bool) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true, DisableKeepAlives: fresh, DialContext: cfg.Dial}
	authorized, err := rest.HTTPWrappersForConfig(cfg, transport)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: authorized}, nil
}
