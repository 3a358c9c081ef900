package mcp

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lastAnswers bounds how long calls are answered after the client's last word.
const lastAnswers = 30 * time.Second

// drained is a transport whose input ends when every call that it brought is
// answered: what a shell pipes in is answered whole, though the pipe has ended.
type drained struct{ mcp.Transport }

// Connect implements mcp.Transport.
func (d drained) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := d.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &drainedConnection{Connection: c, open: map[jsonrpc.ID]struct{}{}, closed: make(chan struct{})}, nil
}

type drainedConnection struct {
	mcp.Connection

	mu       sync.Mutex
	open     map[jsonrpc.ID]struct{} // calls that were read and not answered
	answered chan struct{}           // closed with the last of them, once the input has ended; nil before

	closed    chan struct{}
	closeOnce sync.Once
}

// Read implements mcp.Connection.
func (c *drainedConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if call, ok := m.(*jsonrpc.Request); ok && err == nil && call.IsCall() {
		c.mu.Lock()
		c.open[call.ID] = struct{}{}
		c.mu.Unlock()
	}
	if errors.Is(err, io.EOF) {
		c.drain(ctx)
	}
	return m, err
}

func (c *drainedConnection) drain(ctx context.Context) {
	c.mu.Lock()
	if len(c.open) == 0 {
		c.mu.Unlock()
		return
	}
	c.answered = make(chan struct{})
	answered := c.answered
	c.mu.Unlock()
	select {
	case <-answered:
	case <-ctx.Done():
	case <-c.closed:
	case <-time.After(lastAnswers):
	}
}

// Write implements mcp.Connection.
func (c *drainedConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if answer, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, answer.ID)
		if c.answered != nil && len(c.open) == 0 {
			close(c.answered)
			c.answered = nil
		}
	}
	return err
}

// Close implements mcp.Connection.
func (c *drainedConnection) Close() error {
	c.closeOnce.Do(func() { close(c.closed) })
	return c.Connection.Close()
}
