package acme

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/api/certmanager"
)

var (
	programFlag      = flag.String("certplane", "", "the program that BenchmarkCertificates measures")
	certificatesFlag = flag.Int("certificates", 1000, "how many Certificates BenchmarkCertificates creates at once")
	namespacesFlag   = flag.Int("namespaces", 1, "over how many namespaces they are spread")
	limitFlag        = flag.Duration("limit", 20*time.Minute, "when BenchmarkCertificates gives up")
	profileFlag      = flag.String("profile", "", "a folder for profiles of the server, or empty")
)

// BenchmarkCertificates creates many Certificates at once in a server in a separate
// process, and measures the time until Pebble has issued all of them by HTTP-01. Pebble
// and the client are in the process of the benchmark.
func BenchmarkCertificates(b *testing.B) {
	if *programFlag == "" {
		b.Skip("-certplane does not name the program")
	}
	for b.Loop() {
		newBench(b).run()
	}
}

// bench is a server in a separate process, and a CA.
type bench struct {
	*testing.B
	server *exec.Cmd
	admin  client.Client
	// calls are the requests to the CA, by endpoint.
	calls *calls
	// raw reads paths of the API.
	raw rest.Interface
	dir string
}

func newBench(b *testing.B) *bench {
	b.Helper()
	_, resolver := startDNS(quiet{b})
	port := freePort(b)
	w := &bench{B: b, calls: &calls{by: map[string]int{}}, dir: b.TempDir()}
	ca := startPebble(quiet{b}, pebbleOptions{httpPort: port, resolver: resolver, wrap: w.calls.count})
	w.serve(port)
	for i := range *namespacesFlag {
		w.addIssuer(ca, namespace(i))
	}
	return w
}

// quiet is a benchmark that does not log.
type quiet struct{ testing.TB }

func (quiet) Logf(string, ...any) {}

func namespace(i int) string {
	if i == 0 {
		return metav1.NamespaceDefault
	}
	return fmt.Sprintf("bench-%d", i)
}

// serve runs the server until the benchmark ends.
func (w *bench) serve(port int) {
	w.Helper()
	config := fmt.Sprintf(`
apiVersion: config.certplane.dev/v1alpha1
kind: ServerConfiguration
acme:
  allowLoopback: true
  http01:
    listen: [%q]
    selfCheck: %s
`, loopback(port), selfcheck.Local)
	file, output := filepath.Join(w.dir, "server.yaml"), filepath.Join(w.dir, "server.log")
	log, err := os.Create(output)
	if err := errors.Join(err, os.WriteFile(file, []byte(config), 0o600)); err != nil {
		w.Fatal(err)
	}
	program, err := filepath.Abs(*programFlag)
	if err != nil {
		w.Fatal(err)
	}
	data := filepath.Join(w.dir, "data")
	w.server = exec.Command(program, "serve", "--config", file, "--data-dir", data, "--listen", "127.0.0.1:0")
	w.server.Stdout, w.server.Stderr = log, log
	if err := w.server.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		defer log.Close()
		w.server.Process.Signal(os.Interrupt)
		w.server.Wait()
		if w.Failed() {
			said, _ := os.ReadFile(output)
			w.Logf("the server said:\n%s", said[max(0, len(said)-8192):])
		}
	})
	kubeconfig := filepath.Join(data, "admin.kubeconfig")
	eventually(w, "the server is ready", func() bool {
		_, err := os.Stat(kubeconfig)
		return err == nil
	})
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		w.Fatal(err)
	}
	cfg.QPS = -1 // no limit
	w.admin, w.raw = newAdmin(w, cfg), kubernetes.NewForConfigOrDie(cfg).Discovery().RESTClient()
	if *profileFlag != "" {
		w.profile()
	}
}

// requests returns how many requests the API has had, by what they were.
func (w *bench) requests() map[string]float64 {
	w.Helper()
	data, err := w.raw.Get().AbsPath("/metrics").DoRaw(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(data))
	if err != nil {
		w.Fatal(err)
	}
	found := map[string]float64{}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		found[strings.Join([]string{labels["verb"], labels["resource"], labels["subresource"], labels["code"]}, " ")] += m.GetCounter().GetValue()
	}
	return found
}

// profiledSeconds is how long a CPU profile takes.
const profiledSeconds = 30

// profile writes a profile of the first seconds.
func (w *bench) profile() {
	go func() {
		data, err := w.raw.Get().AbsPath("/debug/pprof/profile").
			Param("seconds", strconv.Itoa(profiledSeconds)).Timeout(2 * profiledSeconds * time.Second).DoRaw(w.Context())
		if err == nil {
			err = os.WriteFile(filepath.Join(*profileFlag, "cpu.pprof"), data, 0o600)
		}
		if err != nil && w.Context().Err() == nil {
			w.Logf("profiling: %v", err)
		}
	}()
}

func (w *bench) addIssuer(ca *pebble, namespace string) {
	w.Helper()
	if namespace != metav1.NamespaceDefault {
		if err := w.admin.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			w.Fatal(err)
		}
	}
	createReady(w, w.admin, newIssuer(ca, namespace, "pebble", byHTTP))
}

// run creates the Certificates and reports what it took until all were Ready.
func (w *bench) run() {
	ctx, cancel := context.WithTimeout(w.Context(), *limitFlag)
	defer cancel()
	requests, before, begin := w.requests(), w.cpu(), time.Now()
	w.create(ctx)
	created, said := time.Since(begin), time.Now()
	ready := 0
	for ready < *certificatesFlag {
		if err := sleep(ctx, time.Second); err != nil {
			w.Fatalf("%d of %d Certificates are ready after %s", ready, *certificatesFlag, *limitFlag)
		}
		ready = w.ready(ctx)
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			fmt.Fprintf(os.Stderr, "\n%3.0f s: %d ready, CPU of the server %s", time.Since(begin).Seconds(), ready, w.cpu()-before)
		}
	}
	took, cpu := time.Since(begin), w.cpu()-before
	each := float64(*certificatesFlag)
	w.ReportMetric(0, "ns/op")
	w.ReportMetric(took.Seconds(), "s")
	w.ReportMetric(created.Seconds(), "s-creating")
	w.ReportMetric(each/took.Seconds(), "certificates/s")
	w.ReportMetric(cpu.Seconds(), "server-CPU-s")
	w.ReportMetric(1000*cpu.Seconds()/each, "server-CPU-ms/certificate")
	now, text := w.requests(), new(strings.Builder)
	for _, name := range slices.SortedFunc(maps.Keys(now), func(a, b string) int { return cmp.Compare(now[b]-requests[b], now[a]-requests[a]) }) {
		if n := (now[name] - requests[name]) / each; n >= 0.05 {
			fmt.Fprintf(text, "\n%6.2f %s", n, name)
		}
	}
	fmt.Fprintf(os.Stderr, "\nrequests to the CA: %s\nrequests to the API for each Certificate:%s\nEvents for each Certificate:%s\n", w.calls, text, w.events()) // logs of benchmarks are cut
}

// events describes the Events that the API has, by what they say.
func (w *bench) events() string {
	var list eventsv1.EventList
	if err := w.admin.List(w.Context(), &list); err != nil {
		w.Fatal(err)
	}
	counts := map[string]int{}
	for _, e := range list.Items {
		counts[fmt.Sprintf("%s %s of %s", e.Type, e.Reason, e.Regarding.Kind)]++
	}
	var text strings.Builder
	for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Compare(counts[b], counts[a]) }) {
		fmt.Fprintf(&text, "\n%6.2f %s", float64(counts[name])/float64(*certificatesFlag), name)
	}
	return text.String()
}

// create creates the Certificates, some at a time.
func (w *bench) create(ctx context.Context) {
	w.Helper()
	var group sync.WaitGroup
	numbers := make(chan int)
	for range 8 {
		group.Go(func() {
			for i := range numbers {
				name := fmt.Sprintf("bench-%d", i)
				cert := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i % *namespacesFlag), Name: name}}
				cert.Spec = cmv1.CertificateSpec{
					SecretName: name, DNSNames: []string{name + ".example.com"}, IssuerRef: cmmeta.IssuerReference{Name: "pebble"},
					PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
				}
				if err := w.admin.Create(ctx, cert); err != nil {
					w.Error(err)
				}
			}
		})
	}
	for i := range *certificatesFlag {
		numbers <- i
	}
	close(numbers)
	group.Wait()
	if w.Failed() {
		w.FailNow()
	}
}

// ready returns how many Certificates are ready.
func (w *bench) ready(ctx context.Context) int {
	var list cmv1.CertificateList
	if err := w.admin.List(ctx, &list); err != nil {
		w.Logf("listing: %v", err)
		return 0
	}
	n := 0
	for i := range list.Items {
		if certmanager.CertificateIs(&list.Items[i], cmv1.CertificateConditionReady) {
			n++
		}
	}
	return n
}

// cpu returns the user and system time of the server, from proc(5), where the
// unit is 10 ms.
func (w *bench) cpu() time.Duration {
	w.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.server.Process.Pid))
	if err != nil {
		w.Fatalf("measuring needs Linux: %v", err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // after the name
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err := errors.Join(err1, err2); err != nil {
		w.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// calls counts requests.
type calls struct {
	mu sync.Mutex
	by map[string]int
}

// count returns next with each request counted by the name of its endpoint.
func (c *calls) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		c.mu.Lock()
		c.by[name]++
		c.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

// of returns how many requests an endpoint has had.
func (c *calls) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[name]
}

func (c *calls) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.by)) {
		fmt.Fprintf(&text, " %s %d", name, c.by[name])
	}
	return strings.TrimSpace(text.String())
}
