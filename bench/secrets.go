package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// secretLoad is how many Secrets that have nothing to do with certificates are
// in the store, and how much each holds.
type secretLoad struct{ secrets, bytes int }

// secretsResult is the cost of Secrets for a server. All memory is measured at rest: Before
// without Secrets, After with them and without a restart, and Restarted after a restart.
type secretsResult struct {
	Secrets int `json:"secrets"`
	Bytes   int `json:"bytes"`
	// Errors are Secrets that could not be created.
	Errors    int        `json:"errors"`
	Before    restMemory `json:"before"`
	After     restMemory `json:"after"`
	Restarted restMemory `json:"restarted"`
}

// restMemory is resident memory: AnonymousMB is the memory that the process has allocated,
// and FileMB are pages of files, which are its program and etcd's database. The kernel can
// reclaim those pages.
type restMemory struct {
	ResidentMB  float64 `json:"residentMB"`
	AnonymousMB float64 `json:"anonymousMB"`
	FileMB      float64 `json:"fileMB"`
}

// measureSecrets fills the store of a separate certplane. It restarts the server before the
// first measurement, so that the first and the last both use an existing store.
func measureSecrets(ctx context.Context, s *system, opts options, to *results) error {
	r := &secretsResult{Secrets: opts.secrets.secrets, Bytes: opts.secrets.bytes}
	var err error
	if r.Before, err = restAfterRestart(ctx, s, opts); err != nil {
		return err
	}
	log.Printf("creating %d Secrets", r.Secrets)
	if r.Errors, err = opts.secrets.create(ctx, s.admin); err != nil {
		return err
	}
	if r.After, err = atRest(ctx, s, opts.settle); err != nil {
		return err
	}
	r.Restarted, err = restAfterRestart(ctx, s, opts)
	to.Secrets = r
	return err
}

func restAfterRestart(ctx context.Context, s *system, opts options) (restMemory, error) {
	if err := s.restartCertplane(ctx, opts); err != nil {
		return restMemory{}, fmt.Errorf("restarting: %w", err)
	}
	return atRest(ctx, s, opts.settle)
}

// atRest waits until the server has come to rest.
func atRest(ctx context.Context, s *system, settle time.Duration) (restMemory, error) {
	if err := sleep(ctx, settle); err != nil {
		return restMemory{}, err
	}
	u, err := s.usage()
	return restMemory{ResidentMB: u.residentMB, AnonymousMB: u.anonymousMB, FileMB: u.residentMB - u.anonymousMB}, err
}

// create fills the store.
func (l secretLoad) create(ctx context.Context, admin *rest.Config) (failed int, err error) {
	cfg := rest.CopyConfig(admin)
	cfg.QPS = -1 // no limit
	cfg.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return 0, err
	}
	var failures atomic.Int64
	load{objects: l.secrets}.each(ctx, func(i int) {
		err := persist(ctx, func(ctx context.Context) error {
			_, err := client.CoreV1().Secrets(bookNamespace).Create(ctx, l.secret(i), metav1.CreateOptions{})
			return err
		})
		if err != nil && failures.Add(1) <= shownErrors {
			log.Printf("creating a Secret: %v", err)
		}
	})
	return int(failures.Load()), ctx.Err()
}

// secret returns a Secret that is never read.
func (l secretLoad) secret(i int) *corev1.Secret {
	contents := make([]byte, l.bytes)
	rand.Read(contents) // never fails
	return &corev1.Secret{ObjectMeta: named(fmt.Sprintf("unrelated-%d", i)), Data: map[string][]byte{"data": contents}}
}
