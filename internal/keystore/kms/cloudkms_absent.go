//go:build !cloudkms

package kms

import "context"

var openGoogle func(ctx context.Context, uri string) (*Key, error)
