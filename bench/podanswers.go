package main

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// loadResult is the result of a round of PodCertificateRequests or of Certificates.
type loadResult struct {
	// System is the measured system, if there were several.
	System   string `json:"system,omitempty"`
	Name     string `json:"name"`
	Requests int    `json:"requests"`
	Issued   int    `json:"issued"`
	// Errors are requests that could not be created, Lost those that were created but got no
	// certificate, and Changed those whose certificate was replaced by another one.
	Errors  int `json:"errors"`
	Lost    int `json:"lost"`
	Changed int `json:"changed"`
	// InAnswer are certificates that the answer to the creation had.
	InAnswer int64   `json:"inAnswer"`
	Seconds  float64 `json:"seconds"`
	Rate     float64 `json:"certificatesPerSecond"`
	// Latency is from the request to the certificate's arrival on a watch.
	P50Milliseconds float64 `json:"p50Milliseconds"`
	P99Milliseconds float64 `json:"p99Milliseconds"`
	// MedianSeconds is when half of the certificates had arrived, LastSeconds when
	// all had, since the round began.
	MedianSeconds float64 `json:"medianSeconds"`
	LastSeconds   float64 `json:"lastSeconds"`
	cost
}

// answers records the answers to the requests of a round, of whatever kind they
// are. It is safe for concurrent use.
type answers struct {
	round  string
	stop   context.CancelFunc
	issued atomic.Int64
	// inAnswer counts certificates that came with the answer to the creation.
	inAnswer atomic.Int64

	mu      sync.Mutex
	started map[string]time.Time // requests without an answer
	chains  map[string]string    // or another value that differs between certificates
	took    []time.Duration
	began   time.Time       // set before any request
	arrived []time.Duration // since the round began
	changed int
}

func newAnswers(round string, stop context.CancelFunc) *answers {
	return &answers{round: round, stop: stop, started: map[string]time.Time{}, chains: map[string]string{}}
}

// follow starts the watch and returns once it is open.
func follow(ctx context.Context, fleet *fleet, r podRound) (*answers, error) {
	ctx, cancel := context.WithCancel(ctx)
	a := newAnswers(r.name, cancel)
	shared := informers.NewSharedInformerFactory(fleet.client, 0)
	informer := shared.Certificates().V1().PodCertificateRequests().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { a.see(object) },
		UpdateFunc: func(_, object any) { a.see(object) },
	})
	if err != nil {
		cancel()
		return nil, err
	}
	shared.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		cancel()
		return nil, fmt.Errorf("watching the requests: %w", ctx.Err())
	}
	return a, nil
}

func (a *answers) name(i int) string { return fmt.Sprintf("bench-%s-%d", a.round, i) }

func (a *answers) expect(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.started[name] = time.Now()
}

func (a *answers) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.started, name)
}

// see records the certificate of a request, and reports whether it has one.
func (a *answers) see(object any) bool {
	request, ok := object.(*certificatesv1.PodCertificateRequest)
	if !ok || !meta.IsStatusConditionTrue(request.Status.Conditions, certificatesv1.PodCertificateRequestConditionTypeIssued) {
		return false
	}
	a.note(request.Name, request.Status.CertificateChain)
	return true
}

// note records which certificate a request has; "" is not known yet.
func (a *answers) note(name, certificate string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if first, known := a.chains[name]; known {
		switch {
		case first == "":
			a.chains[name] = certificate
		case certificate != first:
			a.changed++
		}
		return
	}
	start, ours := a.started[name]
	if !ours {
		return
	}
	delete(a.started, name)
	a.chains[name] = certificate
	a.took = append(a.took, time.Since(start))
	a.arrived = append(a.arrived, time.Since(a.began))
	a.issued.Add(1)
}

// answerPatience is how long a round waits for the next certificate. If a
// server works on all Certificates in turn, they are finished late, and nearly
// together.
const answerPatience = 2 * time.Minute

// await returns when every request has its certificate, or when no certificate
// has arrived for answerPatience.
func (a *answers) await(ctx context.Context) {
	last, since := int64(-1), time.Now()
	for {
		a.mu.Lock()
		waiting := len(a.started)
		a.mu.Unlock()
		if waiting == 0 {
			return
		}
		if now := a.issued.Load(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > answerPatience {
			log.Printf("round %s: %d requests have no certificate after %v", a.round, waiting, answerPatience)
			return
		}
		if sleep(ctx, 5*time.Millisecond) != nil {
			return
		}
	}
}

func (a *answers) result(requests int) loadResult {
	a.mu.Lock()
	defer a.mu.Unlock()
	took := time.Since(a.began)
	result := loadResult{
		Name: a.round, Requests: requests, Issued: len(a.took), Lost: len(a.started), Changed: a.changed,
		InAnswer: a.inAnswer.Load(), Seconds: took.Seconds(), Rate: float64(len(a.took)) / took.Seconds(),
	}
	if len(a.took) > 0 {
		result.P50Milliseconds, result.P99Milliseconds = percentiles(a.took)
		result.MedianSeconds = a.arrived[len(a.arrived)/2].Seconds()
		result.LastSeconds = a.arrived[len(a.arrived)-1].Seconds()
	}
	return result
}
