package replay_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/replay"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// BenchmarkReplay replays 100,000 requests of a decision log by ten policies, of
// which three apply:
//
//	go test -run '^$' -bench Replay -benchtime 1x ./internal/client/cli/policy/replay
//
// cpu-s/op is the time that all workers together compute. peak-MB is the memory that the process has from the system: it must not depend
// on the number of requests.
func BenchmarkReplay(b *testing.B) {
	const requests = 100_000
	file := filepath.Join(b.TempDir(), "decisions.log")
	var policies []*v1alpha1.CertificatePolicy
	for i := range 7 {
		other := policy(fmt.Sprintf("other-%d", i), season, "example.org")
		other.Spec.Match.Namespaces = &v1alpha1.NamespaceMatch{Names: []string{fmt.Sprintf("team-%d", i)}}
		policies = append(policies, other)
	}
	limit := &v1alpha1.CertificatePolicy{Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyLimit, Match: v1alpha1.PolicyMatch{Signers: []string{"*"}},
		Rules: []v1alpha1.PolicyRule{
			{Name: "few", Expression: "request.dnsNames.size() < 10"},
			{Name: "no-dev", Expression: "!request.dnsNames.exists(n, inZone(n, 'dev.example.com')) || request.namespace.startsWith('dev-')"},
		},
	}}
	limit.Name = "guardrails"
	policies = append(policies, limit, policy("web-shop", season, "shop.example.com"))
	old := setOf(policies...)
	next := setOf(append(policies[:len(policies)-1:len(policies)-1], policy("web-shop-next", month, "shop.example.com"))...)
	writeLog(b, file, old, requests)
	debug.SetGCPercent(400) // as the command does
	before := cpu(b)
	b.ResetTimer()
	for range b.N {
		cfg := withDefaults(replay.Config{Logs: []string{file}, Old: old, New: next, FailOn: replay.FailOnNone, Stdout: io.Discard, Stderr: io.Discard})
		cfg.Workers, cfg.Now = runtime.GOMAXPROCS(0), time.Now
		if err := replay.Run(context.Background(), cfg); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(memory.Sys)/(1<<20), "peak-MB")
	b.ReportMetric((cpu(b)-before)/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(b.N)*requests/b.Elapsed().Seconds(), "requests/s")
}

// cpu returns the time that the process has computed, which does not depend on
// other processes.
func cpu(b *testing.B) float64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func writeLog(b *testing.B, name string, set *certpolicy.Set, n int) {
	b.Helper()
	file, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	out, made := bufio.NewWriter(file), newRequests(b)
	var lines [][]byte
	for i := range 500 {
		length := month
		if i%2 == 0 {
			length = season
		}
		cr := made.certificateRequest(fmt.Sprintf("web-%d", i), 1+i%28, length, fmt.Sprintf("www%d.shop.example.com", i), fmt.Sprintf("api%d.shop.example.com", i))
		lines = append(lines, append(logLine(b, set, cr, certpolicy.Facts{}, v1alpha1.StageApprover), '\n'))
	}
	for i := range n {
		if _, err := out.Write(lines[i%len(lines)]); err != nil {
			b.Fatal(err)
		}
	}
	if err := out.Flush(); err != nil {
		b.Fatal(err)
	}
}
