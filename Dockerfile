# docker build -t stepsim . && docker run --rm -v "$PWD:/here" stepsim run gpt3-175b
FROM rust:1.95-slim
WORKDIR /src
COPY . .
RUN cargo install --locked --path . --root /usr/local && rm -rf /src/target /usr/local/cargo/registry
WORKDIR /here
ENTRYPOINT ["stepsim"]
CMD ["run"]
