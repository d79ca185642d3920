// Package slow runs the built program where little works in time: with a share of one
// core, with very many stored requests, with definitions that a webhook delays, and with
// an etcd that is away. None of that may end the process, and it must work afterwards.
// "make test-slow" runs it with the full values, which take an hour or more;
// "make test-slow SLOW=short" with small ones.
package slow
